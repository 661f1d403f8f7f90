"""Faults by calls: runs each pair, judges it, and writes the table. `scripts/fault-matrix.sh` starts it in namespaces of its own."""

import argparse
import json
import os
import subprocess
import sys
import time

import calls
import defects
import faults
import network
import parties
import table


# What a party may take at most: a multiple of what it takes without a fault, and far below what it would take if it kept what is not read.
MEMORY_MIB = 128


class Stage:
    """The machines and parties on which the cells play, one after the other."""

    def __init__(self, binaries, own, out, private):
        self.network = network.Network()
        self.parties = parties.Parties(binaries, own, out, private)
        self.call = None
        # The scores of the model in service, and what a call costs that meets no fault.
        self.expected = {}
        self.costs = {}

    def settle(self):
        """Waits until every service answers. Gives whether they do."""
        return self.parties.wait_healthy()

    def remember_costs(self):
        """Takes what an audit, a training and an alignment write down when nothing is wrong."""
        for name, long, book in (("audit", False, "scorings"), ("audit", True, "scorings"), ("align", False, "alignments")):
            before = self.parties.books()[book]
            outcome = calls.begin(self.parties, name, long).wait(60)
            if outcome is None or not outcome.is_answer:
                raise RuntimeError(f"no {name} without a fault: {outcome and outcome.words}")
            self.costs[name, long] = self.parties.books()[book] - before

    def remember_scores(self):
        """Takes the scores of the model in service as those that must come again."""
        for which in ("predict", "stream"):
            self.expected[which] = self.scores(which)

    def scores(self, which):
        """The scores of the model in service."""
        outcome = calls.score(self.parties, which, "").wait(60)
        if outcome is None or not outcome.is_answer:
            raise RuntimeError(f"no scores without a fault: {outcome and outcome.words}")
        return outcome.answer


def play(stage, fault, call):
    """Runs one cell and gives what is to be told of it."""
    stage.call = call
    wrong = []
    if fault.around:
        fault.around[0](stage)
    before = stage.parties.books()
    name = calls.new_name()

    # Of a service that is killed under a call the caller's own program has the last word: ours, here.
    if fault.name == "killed-active":
        name = None

    def begin():
        if call in ("predict", "stream"):
            if name is None:
                return calls.by_command_line(stage.parties, call)
            return calls.score(stage.parties, call, name)
        return calls.begin(stage.parties, call, long=not fault.bearable)

    early = fault.bearable or (call in ("predict", "stream") and not fault.name.startswith("killed"))
    if early:
        fault.begin(stage)
        under_way = begin()
    else:
        under_way = begin()
        faults.wait_for_lead(call)
        if under_way.process.poll() is not None:
            wrong.append("the call had ended before the fault began")
        fault.begin(stage)
    if problem := fault.check(stage):
        wrong.append(problem)
    lead = 0 if early else calls.LEADS[call]
    deadline = calls.DEADLINES[call] + calls.SLACK + lead
    outcome = under_way.wait(calls.ANSWERED if fault.bearable else deadline)
    stage.parties.note_peaks()
    dropped = fault.end(stage)
    if fault.drops and not dropped and fault.name != "loss":
        wrong.append("no packet was dropped")
    healed = time.monotonic()
    if not stage.settle():
        wrong.append("a service does not answer 30 s after the fault")
    judge_outcome(stage, fault, call, outcome, lead, wrong)
    judge_books(stage, call, not fault.bearable, before, outcome, name, healed, wrong)
    if call in calls.TRAININGS and outcome:
        same = stage.scores("predict") == stage.expected["predict"]
        if same == outcome.is_answer:
            wrong.append(f"the model in service is {'the old one after an answer' if same else 'another one after an error'}")
    # A training that is refused is not dated.
    if fault.clock and call in calls.TRAININGS and outcome and outcome.is_answer:
        began = stage.parties.last_training_of_coordinator()
        if began > time.time() - fault.clock / 2:
            wrong.append(f"the clock was not set back: a training began at {began}, it is {time.time():.0f}")
    recovered = judge_next(stage, call, outcome, healed, wrong)
    if fault.around:
        fault.around[1](stage)
    stage.parties.note_peaks()
    words = table.general(outcome.words) if outcome else ""
    known = defects.sort_out(call, words, wrong)
    return {
        "fault": fault.name,
        "call": call,
        "answered": bool(outcome and outcome.is_answer),
        "seconds": round(outcome.seconds - lead, 2) if outcome else None,
        "words": words,
        "recovered": recovered,
        "dropped": dropped,
        "known": known,
        "wrong": wrong,
    }


def judge_outcome(stage, fault, call, outcome, lead, wrong):
    """An answer is the right one; an error names something, in time."""
    if outcome is None:
        wrong.append("no answer and no error within the deadline")
        return
    if outcome.is_answer:
        if call in stage.expected and outcome.answer != stage.expected[call]:
            wrong.append("the scores are others")
        return
    if outcome.seconds - lead > calls.DEADLINES[call] + calls.SLACK:
        wrong.append("it came after the deadline")
    party = None if call == "audit" and fault.at_auditor else fault.party
    if not table.speaks_of(outcome.words, party):
        wrong.append(f"the error does not speak of {party or 'a party'}")
    owner = table.owner_of_path(outcome.words)
    if owner not in (None, "auditor" if call == "audit" else "active"):
        wrong.append(f"the error tells a path of {owner}")


def judge_books(stage, call, long, before, outcome, name, healed, wrong):
    """A row is recorded at most once, and the same request again costs nothing more than its rows once."""
    after = stage.parties.books()
    rows = len(stage.parties.lists[call]) if call in stage.expected else 0
    cost = after["rows"] - before["rows"]
    if cost > rows:
        wrong.append(f"{cost} rows were recorded of a call of {rows}")
    if outcome and outcome.is_answer and cost != rows:
        wrong.append(f"{cost} rows were recorded of an answer of {rows}")
    if after["refused"] != before["refused"]:
        wrong.append("rows were refused")
    for book, most in (
        ("scorings", stage.costs["audit", long] if call == "audit" else 0),
        ("alignments", int(call == "align")),
        ("trainings", int(call in calls.TRAININGS)),
    ):
        more = after[book] - before[book]
        if more > most:
            wrong.append(f"{more} {book} were counted of a call that costs {most}")
    if call not in stage.expected or name is None:
        return
    again = None
    while again is None or not again.is_answer:
        again = calls.score(stage.parties, call, name).wait(calls.DEADLINES[call] + calls.SLACK)
        if time.monotonic() > healed + 30:
            break
    if again is None or not again.is_answer:
        wrong.append(f"the same request is not answered 30 s after the fault: {again.words if again else 'nothing came'}")
    elif again.answer != stage.expected[call]:
        wrong.append("the same request got other scores")
    cost = stage.parties.books()["rows"] - before["rows"]
    if cost != rows:
        wrong.append(f"with the same request again, {cost} rows were recorded in place of {rows}")


def judge_next(stage, call, outcome, healed, wrong):
    """The next call works. Gives the seconds from the end of the fault until it did."""
    while True:
        if call in stage.expected:
            done = calls.by_command_line(stage.parties, call).wait(60)
        else:
            done = calls.begin(stage.parties, call, long=False).wait(60)
        if done and done.is_answer:
            break
        if time.monotonic() > healed + 45:
            wrong.append(f"the next call does not work 45 s after the fault: {done.words if done else 'nothing came'}")
            return None
        time.sleep(0.2)
    recovered = round(time.monotonic() - healed, 1)
    if call in calls.TRAININGS:
        stage.remember_scores()
    elif call not in stage.expected:
        if stage.scores("predict") != stage.expected["predict"]:
            wrong.append("the model in service is another one")
    return recovered


def chosen(options):
    """The cells that are asked for."""
    names = [fault.name for fault in faults.ALL]
    wanted = options.faults.split(",") if options.faults else names
    called = options.calls.split(",") if options.calls else list(calls.NAMES)
    for name in (*wanted, *called):
        if name not in (*names, *calls.NAMES):
            sys.exit(f"'{name}' is none of: {', '.join(names)}; calls are {', '.join(calls.NAMES)}")
    return [fault for fault in faults.ALL if fault.name in wanted and (fault.quick or not options.quick)], called


def main():
    """Runs what is asked for; the exit code is 1 if a cell is wrong."""
    parser = argparse.ArgumentParser()
    for option in ("--bin", "--own", "--out"):
        parser.add_argument(option, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--faults")
    parser.add_argument("--calls")
    parser.add_argument("--private-releases", action="store_true")
    options = parser.parse_args()
    rows, columns = chosen(options)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", options.own], check=True, timeout=20)
    since = time.monotonic()
    stage = Stage(options.bin, options.own, options.out, options.private_releases)
    if not stage.settle():
        sys.exit(f"the services do not start; see the logs in {options.out}")
    first = calls.begin(stage.parties, "train", long=False).wait(120)
    if first is None or not first.is_answer:
        sys.exit(f"the first training failed: {first.words if first else 'nothing came'}")
    stage.remember_scores()
    stage.remember_costs()
    cells = []
    for fault in rows:
        if fault.name.startswith("clock") and not stage.parties.clock_library():
            print(f"NOT CHECKED: {fault.words}: no libfaketime (Debian: faketime)", flush=True)
            continue
        for call in columns:
            try:
                cell = play(stage, fault, call)
            except RuntimeError as error:
                sys.exit(f"{fault.name}, {call}: {error}; see the logs in {options.out}")
            cells.append(cell)
            print(table.line(cell), flush=True)
    faulty = [f"{name} did not stop in good order" for name in parties.NAMES if not stage.parties.stop(name)]
    faulty += [f"{name} took {peak:.0f} MiB" for name, peak in stage.parties.peaks.items() if peak > MEMORY_MIB]
    lossy = [cell for cell in cells if cell["fault"] == "loss"]
    if lossy and not any(cell["dropped"] for cell in lossy):
        faulty.append("no packet was lost")
    text = table.markdown(cells, faults.ALL, columns, stage.parties.peaks)
    with open(os.path.join(options.out, "matrix.md"), "w", encoding="utf-8") as file:
        file.write(text)
    with open(os.path.join(options.out, "matrix.json"), "w", encoding="utf-8") as file:
        json.dump({"cells": cells, "peaks_mib": stage.parties.peaks, "wrong": faulty}, file, indent=2)
    print(text)
    wrong = sum(bool(cell["wrong"]) for cell in cells)
    known = sum(bool(cell["known"]) for cell in cells)
    for fault in faulty:
        print(f"WRONG: {fault}")
    print(f"{len(cells)} cells, {wrong} wrong, {known} with a known defect, {time.monotonic() - since:.0f} s; {options.out}/matrix.md")
    sys.exit(1 if wrong or faulty else 0)


if __name__ == "__main__":
    main()
