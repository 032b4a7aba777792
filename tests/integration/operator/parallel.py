"""Runs test cases side by side: on a real API server nearly all of a case's time is waiting."""

import concurrent.futures
import sys
import unittest


class ParallelSuite(unittest.BaseTestSuite):
    """Cases of one program, which share what setUpModule made. Each needs a namespace of its own. Those marked
    with `alone` run after the others, one by one."""

    threads = 6

    def __init__(self, tests=(), set_up=None, tear_down=None):
        super().__init__(tests)
        self._set_up = set_up
        self._tear_down = tear_down

    def run(self, result, debug=False):
        cases = list(flatten(self))
        try:
            self._set_up()
            self._run_all([c for c in cases if not is_alone(c)], result, self.threads)
            self._run_all([c for c in cases if is_alone(c)], result, 1)
        except Exception:  # pylint: disable=broad-except
            result.addError(unittest.suite._ErrorHolder("setUpModule"), sys.exc_info())
        finally:
            try:
                self._tear_down()
            except Exception:  # pylint: disable=broad-except
                result.addError(unittest.suite._ErrorHolder("tearDownModule"), sys.exc_info())
        return result

    def _run_all(self, cases, result, threads):
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            running = {pool.submit(_run_one, case): case for case in cases}
            for done in concurrent.futures.as_completed(running):
                _report(running[done], done.result(), result)


def alone(method):
    method.alone = True
    return method


def is_alone(case):
    return getattr(getattr(case, case._testMethodName), "alone", False)


def flatten(suite):
    for each in suite:
        if isinstance(each, unittest.TestCase):
            yield each
        else:
            yield from flatten(each)


def _run_one(case):
    result = unittest.TestResult()
    case.run(result)
    return result


class _Told(Exception):
    """A failure that was formatted in another thread."""

    def __str__(self):
        return "\n" + self.args[0]


def _report(case, own, result):
    result.startTest(case)
    failed = [text for _, text in own.failures + own.errors] + (["passed unexpectedly"] if own.unexpectedSuccesses else [])
    for text in failed:
        told = _Told(text)
        result.addFailure(case, (_Told, told, None))
    if not failed:
        result.addSuccess(case)
    result.stopTest(case)
