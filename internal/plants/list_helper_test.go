package plants_test

const helper = "python/elastic"

// helperPlants are bugs that make the Python helper train wrongly without a message.
var helperPlants = []plant{
	{"a step with an aborted collective counts", helper + "/device.py", `        if self._closed.is_set() and self._failed is None:
            raise WorldChanged
`, ``, "python", "TestHelper/test_device"},
	{"an abort that does not return is awaited for ever", helper + "/training.py",
		`if aborting > device.ABORT_LIMIT:`, `if False:`, "python", "TestHelper/test_device"},
	{"groups are aborted one after the other", helper + "/device.py", `                one.start()
`, `                one.run()
`, "python", "TestHelper/test_device"},
	{"a group is destroyed while it is aborted", helper + "/group.py", `            self.gate.wait()
`, `            pass
`, "python", "TestHelper/test_device"},
	{"a rank waits for ever for a group that has failed", helper + "/device.py",
		`return self._error() if now`, `return None if now`, "python", "TestHelper/test_device"},
	{"a rank that computes for long is taken for one that waits", helper + "/device.py",
		`if self._waits is not None and now - self._waits >`, `if now - (self._waits or self._passed) >`,
		"python", "TestHelper/test_device"},
	{"a rank does not wait for one that validates", helper + "/patience.py",
		`min(max(END_STEPS * usual, END_LEAST), END_MOST)`, `min(END_STEPS * usual, END_MOST)`,
		"python", "TestHelper/test_patience"},
	{"a state is taken from an aborted broadcast", helper + "/beginning.py", `        group.check()
`, ``, "python", "TestHelper/test_device"},
	{"a tensor of a state that is given is not awaited", helper + "/sharing.py", `dist.recv(_flat(tensor), src=giver)`,
		`dist.recv(_flat(tensor.clone()), src=giver)`, "python", "TestHelper/test_sharing"},
	{"a save gets its mark although its state was replaced", helper + "/saving.py", `if not is_wanted():`, `if False:`,
		"python", "TestHelper/test_writing"},
	{"training changes what is being written", helper + "/keeping.py",
		`Copier(to_host.move).copy(values, self._copy) if`, `values if`, "python", "TestHelper/test_writing"},
	{"a copy is written into by two tensors", helper + "/copying.py", `if id(into) in self._used:`, `if False:`,
		"python", "TestHelper/test_copying"},
	{"NCCL stays in place", helper + "/group.py", `rpartition(":")[2] == "gloo"`,
		`rpartition(":")[2] in ("gloo", "nccl")`, "python", "TestHelper/test_training"},
	{"a rank that is interrupted keeps half a step", helper + "/course.py",
		`if self._at_boundary or not self._held`, `if True or not self._held`, "python", "TestHelper/test_training"},
	{"a step ends where end_step() is called", helper + "/course.py",
		`if not self._driven and not self._waits_for_epoch():`, `if True:`, "python", "TestHelper/test_training"},
	{"an epoch ends with its last step", helper + "/sampler.py",
		`if self.consumed == self.n and not self._in_epochs:`, `if self.consumed == self.n:`,
		"python", "TestHelper/test_course"},
	{"a batch that was not ended is passed over", helper + "/course.py",
		`        if not self._ended:
`, `        if False:
`, "python", "TestHelper/test_course"},
	{"a batch is counted twice", helper + "/course.py", `if self._ended and self._driven:`, `if False:`,
		"python", "TestHelper/test_course"},
	{"a rank with another state of the same step keeps it", helper + "/voting.py",
		`(list(place), prints[rank]) != newest`, `list(place) != newest[0]`,
		"python", "TestHelper/test_voting"},
	{"a difference of rates counts as rounding", helper + "/fingerprint.py",
		`<= ROUNDING * max(size, other[1])`, `<= ROUNDING * max(size, other[1], 1e9)`,
		"python", "TestHelper/test_course"},
	{"a copy of the state shares its lists", helper + "/copying.py", `result[name] = self.copy(part, older.get(name))`,
		`result[name] = part`, "python", "TestHelper/test_course"},
	{"sharded state is saved", helper + "/course.py", `        """Save, and return when the save is whole."""
        wrappers.refuse_sharded(self._values())
`, ``, "python", "TestHelper/test_course"},
	{"a loss that is not finite is overtaken by the next", helper + "/reporting.py",
		`bad is None and not math.isfinite(loss)`, `not math.isfinite(loss)`, "python", "TestHelper/test_reporting"},
	{"a loss that is not finite is known by the newest step", helper + "/reporting.py",
		`{"step": _plain(step), "loss": loss}`, `{"loss": loss}`, "python", "TestHelper/test_reporting"},
	{"a store that torch does not call is taken for one that it calls", helper + "/torch_private.py",
		`return bool(heard)`, `return True`, "python", "TestHelper/test_torch_private"},
	{"a wrapper with another reducer is left as it is", helper + "/torch_private.py",
		`        return False
    with`, `        return True
    with`, "python", "TestHelper/test_torch_private"},
	{"code that runs once runs after each restart", helper + "/once.py", `new = name not in self._names`, `new = True`,
		"python", "TestHelper/test_course"},
	{"all groups of parameters get one rate", helper + "/rates.py",
		`rate * factor * (group[BASE] / first if first else 1.0)`, `rate * factor`,
		"python", "TestHelper/test_course"},
	{"a package has the programs of another machine", "release/wheel.go", `f.Machine != want`, `f.Machine != want && false`,
		"release", "TestProgramsRunWhereTheirTagsSay"},
	{"a package has programs that need a C library", "release/wheel.go", `p.Type == elf.PT_INTERP`, `p.Type == elf.PT_INTERP && false`,
		"release", "TestProgramsRunWhereTheirTagsSay"},
}
