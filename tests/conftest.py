"""What all tests need of the process that runs them."""

import signal

# A shell starts its background jobs with SIGINT ignored, nohup ignores SIGHUP, and what is ignored
# is inherited: without this, tests of Ctrl-C and of a closed terminal would fail in such a job.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
