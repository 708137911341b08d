"""Fixtures for every folder of tests."""

import signal

pytest_plugins = ["tests.controlplane.fixtures"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As it is in the background of a shell; the processes that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
