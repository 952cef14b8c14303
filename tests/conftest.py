"""What all tests need of the process that runs them."""

import signal

# A shell starts its background jobs with SIGINT ignored, and what is ignored is inherited: without
# this, tests of Ctrl-C would fail wherever the test run itself is such a job.
signal.signal(signal.SIGINT, signal.default_int_handler)
