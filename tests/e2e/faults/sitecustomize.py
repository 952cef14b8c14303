"""Faults for tests: put on PYTHONPATH, it makes SGD with some learning rates misbehave in a run.

It acts in the server from which the runs are forked, and so in them, and nowhere else.
"""

import os
import signal
import sys
import time

HANGS, IS_KILLED, RAISES = 0.111, 0.222, 0.333


def hang(*_):
    time.sleep(600)


def be_killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def fail(*_):
    raise KeyError("injected")


FAULTS = {HANGS: hang, IS_KILLED: be_killed, RAISES: fail}


def install():
    import torch

    plain = torch.optim.SGD.__init__

    def init(self, params, lr=1e-3, **arguments):
        plain(self, params, lr=lr, **arguments)
        if lr in FAULTS:
            self.register_step_pre_hook(FAULTS[lr])

    torch.optim.SGD.__init__ = init


if any("multiprocessing.forkserver" in argument for argument in sys.orig_argv):
    install()
