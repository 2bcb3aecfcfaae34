#!/usr/bin/env python3
"""Runs test programs that print TAP and ends with one line 'N passed, M failed' (', K skipped' may follow).

usage: run.py PROGRAM...     (BUILD names the build folder; programs inherit it)
A program that ends badly without a failed test, prints no test, or takes longer than its limit counts as one failure. The output of a
program with failures is shown whole. A skipped test is printed by name: nothing is skipped in silence.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

LIMIT_S = 1800 if os.environ.get("SOAK") == "1" else 300
STATE = ""
# Those that take longest, longest first: they begin before the others, so that none is left running alone at the end.
LONG = ("test_tokenizer", "test_splits", "test_probe", "test_versions_moving", "test_pieces", "test_plan_property", "test_keeper",
        "53-reported-waits", "72-catalog-live-broken", "11-catalog-versions", "60-reported-engine", "71-catalog-user", "70-user", "14-catalog-probe", "13-catalog-live",
        "52-reported-dialects", "51-reported-operations")


def run(path):
    """-> (passed, failed, names skipped, output)"""
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", XDG_STATE_HOME=STATE)  # not the developer's own catalog and records
    env.pop("STATE_DIRECTORY", None)
    try:
        done = subprocess.run([path], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LIMIT_S)
        output, status = done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as e:
        output, status = (e.stdout or b"").decode("utf-8", "replace") + f"\nlonger than {LIMIT_S} s\n", -1
    except OSError as e:
        output, status = f"cannot be run: {e}\n", -1
    skip = r"^(?:not )?ok \d+.*?#\s*SKIP.*$"  # cmocka writes a skipped test as "not ok"
    skipped = re.findall(skip, output, re.M | re.I)
    rest = re.sub(skip, "", output, flags=re.M | re.I)
    passed = len(re.findall(r"^ok \d+", rest, re.M))
    failed = len(re.findall(r"^not ok \d+", rest, re.M))
    if (status != 0 or passed + len(skipped) == 0) and failed == 0:
        failed = 1
        output += f"\nended with status {status} after {passed} tests\n"
    return passed, failed, skipped, output


def main():
    global STATE
    with tempfile.TemporaryDirectory(prefix="isotherm-state-") as STATE:
        return run_all()


def timed(path):
    began = time.monotonic()
    return *run(path), time.monotonic() - began


def side_by_side(paths, n_at_once):
    """the long ones begin first; the results come in the order of `paths`"""
    name = os.path.basename
    with concurrent.futures.ThreadPoolExecutor(n_at_once) as pool:
        begun = {p: pool.submit(timed, p) for p in sorted(paths, key=lambda p: LONG.index(name(p)) if name(p) in LONG else len(LONG))}
        yield from ((p, begun[p].result()) for p in paths)


def in_order(paths):
    """Unit tests as many at once as there are processors, since they compute; end-to-end tests and SDKs one more, since they mostly wait."""
    n_processors = len(os.sched_getaffinity(0))
    e2e = [p for p in paths if "/e2e/" in p or "/sdk/" in p]
    yield from side_by_side([p for p in paths if p not in e2e], n_processors)
    yield from side_by_side(e2e, n_processors + 1)


def run_all():
    passed = failed = n_skipped = 0
    for path, (p, f, skipped, output, seconds) in in_order(sys.argv[1:]):
        passed, failed, n_skipped = passed + p, failed + f, n_skipped + len(skipped)
        print(f"{'FAILED ' if f else 'ok     '} {os.path.basename(path):32} {p:4} passed {seconds:6.1f} s", flush=True)
        for line in skipped:
            print(f"        skipped: {line}")
        if f:
            print("".join(f"    | {line}\n" for line in output.splitlines()[-120:]), flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {n_skipped} skipped" if n_skipped else ""))
    may_skip_all = not os.environ.get("REQUIRE_SDK")  # set where all that is needed must be there
    return 1 if failed or not passed + n_skipped * may_skip_all else 0


if __name__ == "__main__":
    sys.exit(main())
