"""Choices by several calls: what the calls must be so that together they are the one request.

As many calls as make up `n`; each with the same body but for `n` and `seed`; the seeds those that follow the one that was asked for, no two alike,
never -1, which means none. Written from the policy's description, independently of the planner. What is left of the request, of its account and of
one call is then checked as a single call is.
"""
from account_check import is_neutral, same
from account_wire import MISSING, at, take

SEARCHES = ("best_of", "use_beam_search", "num_beams")  # choices out of one search cannot be had one by one
WHY = ("unsupported", "ignored_by_provider", "above_max", "not_a_value", "conflict")


def take_first(wire, places):
    """the value at the first of the places that holds a number, taken out of the body; MISSING: none does"""
    for path in places:
        value = at(wire, path)
        if isinstance(value, int) and not isinstance(value, bool):
            return take(wire, path), path
    return MISSING, None


class Several:
    """faults: (kind, parameter, text); case, account and wire: what a check of a single call gets"""

    def __init__(self, case, account, wires, n_choices):
        self.faults, self.case, self.account = [], case, account
        body, paths = case["body"], case["provider"].paths
        self.wires = [dict(w) for w in wires]
        ns = [take_first(w, paths.get("n", ())) for w in self.wires]
        seeds = [take_first(w, paths.get("seed", ())) for w in self.wires]
        self.each = [1 if n is MISSING else n for n, _ in ns]
        self.seeds = [s for s, _ in seeds]
        self.check_wanted(body)
        self.check_bodies(ns, seeds)
        self.check_choices(body.get("n"), n_choices)
        self.check_seeds(body.get("seed"))
        self.check_account(body, ns, seeds)
        self.wire = self.wires[0]

    def fault(self, kind, name, text):
        self.faults.append((kind, name, text))

    def check_wanted(self, body):
        policy = body["isotherm"]
        required = policy.get("require", [])
        searches = [s for s in SEARCHES if body.get(s) is not None and not is_neutral(s, body[s])]
        has_seed = body.get("seed") is not None and not is_neutral("seed", body["seed"])
        if policy.get("on_many") == "local" or "n" in required or searches or ("seed" in required and has_seed):
            self.fault("split and not to be", "n", f"{len(self.wires)} calls with {policy}, {searches}")

    def check_bodies(self, ns, seeds):
        for i, wire in enumerate(self.wires[1:], 1):
            if wire != self.wires[0] or ns[i][1] != ns[0][1] or seeds[i][1] != seeds[0][1]:
                self.fault("calls differ", "n", f"call {i}: {wire}\n    call 0: {self.wires[0]}")

    def check_choices(self, n, n_choices):
        if not isinstance(n, int) or sum(self.each) != n:
            self.fault("calls", "n", f"asked {n!r}, the calls have {self.each}")
        if self.each[:-1] != [self.each[0]] * (len(self.each) - 1) or not 0 < self.each[-1] <= self.each[0]:
            self.fault("calls", "n", f"not as few as make it up: {self.each}")
        if n_choices != n:
            self.fault("choices", "n", f"asked {n}, answered {n_choices}")

    def check_seeds(self, asked):
        seeds = self.seeds
        if MISSING in seeds or (asked == -1 and seeds == [-1] * len(seeds)):
            if set(map(type, seeds)) != {type(seeds[0])}:
                self.fault("seeds", "seed", f"not in every call: {seeds}")
            return
        if seeds[0] != asked or len(set(seeds)) != len(seeds) or -1 in seeds:
            self.fault("seeds", "seed", f"asked {asked!r}, sent {seeds}")
        greatest, least = self.case["provider"].ends["seed"]
        for a, b in zip(seeds, seeds[1:]):
            follows = b == a + 1 or (a == -2 and b == 0)
            if not follows and not (a in greatest and b in least):
                self.fault("seeds", "seed", f"{b} follows {a}: {seeds}")

    def taken(self, name, action, reasons):
        """the account's adjustment of that kind, taken out; fault unless there is exactly one"""
        found = [a for a in self.left if a["param"] == name and a["action"] == action]
        if len(found) != 1 or found[0]["reason"] not in reasons:
            self.fault("unaccounted" if not found else "misattributed", name, f"{len(self.wires)} calls, said {found}")
            return None
        self.left = [a for a in self.left if a is not found[0]]
        return found[0]

    def expect(self, name, a, asked, sent):
        if a and not (same(a["asked"], asked) and same(a["sent"], sent)):
            self.fault("misattributed", name, f"says {a['asked']!r} -> {a['sent']!r}, was {asked!r} -> {sent!r}")

    def rename(self, name, path):
        if path and path.split(".")[-1] != name:
            self.taken(name, "renamed", ("wire_name",))

    def check_account(self, body, ns, seeds):
        """takes what is said of the calls out of the account, and out of the request what it is about"""
        self.left = list(self.account["adjustments"])
        gone = {"n"}
        a = self.taken("n", "split", WHY)
        self.expect("n", a, body.get("n"), self.each[0])
        if a and a["reason"] == "above_max" and self.each[0] not in self.case["provider"].ends["n"][0]:
            self.fault("misattributed", "n", f"above_max, and no claim has the maximum {self.each[0]}")
        self.rename("n", ns[0][1])
        if self.seeds[0] is not MISSING:
            gone.add("seed")
            if self.seeds[0] != -1:
                a = self.taken("seed", "rewritten", ("many_calls",))
                self.expect("seed", a, body.get("seed"), self.seeds)
            self.rename("seed", seeds[0][1])
        self.case = dict(self.case, body={k: v for k, v in body.items() if k not in gone})
        self.account = dict(self.account, adjustments=self.left)
        self.became = {name: "changed" for name in gone}
