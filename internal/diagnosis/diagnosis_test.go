package diagnosis

import (
	"strings"
	"testing"
)

const gloo = `Traceback (most recent call last):
  File "train.py", line 40, in <module>
    dist.all_reduce(x)
  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 1536, in all_reduce
    work.wait()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4711
`

const leaks = `nanobind: leaked 2 instances!
 - leaked instance 0x7f0c2a3b of type "tensor.Tensor"
nanobind: leaked 14 types!
 - leaked type "tensor.Tensor"
 - ... skipped remainder
nanobind: this is likely caused by a reference counting issue in the binding code.
See https://nanobind.readthedocs.io/en/latest/refleaks.html
`

func TestExplain(t *testing.T) {
	for name, test := range map[string]struct {
		e       Ending
		message string
		detail  string // a part of it
		victim  bool
	}{
		"an exception": {
			Ending{Code: 1, Output: []byte("step 1\nTraceback (most recent call last):\n  File \"t.py\", " +
				"line 3, in <module>\n    f()\nValueError: bad batch\n")},
			"ValueError: bad batch", `File "t.py", line 3`, false},
		"torch names the rank before each line": {
			Ending{Code: 1, Output: []byte("[rank3]: Traceback (most recent call last):\n[rank3]:   File " +
				"\"t.py\", line 3\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " +
				"2.00 GiB.\n")},
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "CUDA out of memory",
			false},
		"a connection that broke": {Ending{Code: 1, Output: []byte(gloo)}, "", "work.wait()", true},
		"an abort over a connection that broke": {Ending{Code: 134, Signal: "SIGABRT", Output: []byte(gloo)},
			"", "", true},
		"a kill is no victim whatever it wrote": {Ending{Code: 137, Signal: "SIGKILL", Output: []byte(gloo)},
			"", "", false},
		"a broken pipe that was not caught": {Ending{Code: 141, Signal: "SIGPIPE"}, "", "", true},
		"warnings of the end do not hide the cause": {Ending{Code: 1,
			Output: []byte("Traceback (most recent call last):\n  File \"t.py\", line 3\nValueError: bad " +
				"batch\n[W] Connection closed by peer\n\n")}, "ValueError: bad batch", "", false},
		"objects that are left at the end": {
			Ending{Code: 1, Output: []byte("Traceback (most recent call last):\n  File \"t.py\", line " +
				"3\nValueError: bad batch\n" + leaks)},
			"ValueError: bad batch", `File "t.py", line 3`, false},
		"objects that are left, of a program without exceptions": {
			Ending{Code: 3, Output: []byte("up\ntrouble\n\n" + leaks)}, "trouble", "up", false},
		"the kernel's note leads": {
			Ending{Code: 137, Signal: "SIGKILL", Note: "killed by the kernel: out of memory",
				Output: []byte("step 7\n")},
			"killed by the kernel: out of memory: step 7", "step 7", false},
		"a chain of exceptions is shown whole": {
			Ending{Code: 1, Output: []byte("Traceback (most recent call last):\n  File \"a.py\", line " +
				"1\nKeyError: 'x'\n\nDuring handling of the above exception, another exception " +
				"occurred:\n\nTraceback (most recent call last):\n  File \"b.py\", line 2\nRuntimeError: " +
				"no batch\n")},
			"RuntimeError: no batch", "KeyError: 'x'", false},
		"two exceptions that have nothing to do with each other": {
			Ending{Code: 1, Output: []byte("Traceback (most recent call last):\n  File \"a.py\", line " +
				"1\nKeyError: 'x'\ngoing on\nTraceback (most recent call last):\n  File \"b.py\", line " +
				"2\nRuntimeError: no batch\n")},
			"RuntimeError: no batch", "b.py", false},
		"a traceback that is cut off": {
			Ending{Code: 1, Output: []byte("one\nTraceback (most recent call last):\n  File \"a.py\", line " +
				"1\n")},
			`File "a.py", line 1`, "Traceback", false},
		"a program without exceptions": {Ending{Code: 3, Output: []byte("up\ntrouble\n")}, "trouble", "up",
			false},
		"the bundled trainer": {Ending{Code: 1,
			Output: []byte("train: step 4: lost connection to rank 2: EOF\n")},
			"train: step 4: lost connection to rank 2: EOF", "", true},
		"nothing": {Ending{Code: 3}, "", "", false},
		"the error file goes before the output": {
			Ending{Code: 1, Output: []byte(gloo), ErrorFile: []byte(
				`{"message":{"message":"ValueError: bad batch","extraInfo":{"py_callstack":` +
					`"Traceback (most recent call last):\n  File \"t.py\", line 3\nValueError: bad batch\n",` +
					`"timestamp":"1700000000"}}}`)},
			"ValueError: bad batch", `File "t.py", line 3`, false},
		"an error file of a victim": {
			Ending{Code: 1, ErrorFile: []byte(
				`{"message":{"message":"RuntimeError: [pair.cc:598] Connection closed by peer",` +
					`"extraInfo":{"py_callstack":"","timestamp":"1700000000"}}}`)},
			"", "", true},
		"an error file with a plain string": {Ending{Code: 1,
			ErrorFile: []byte(`{"message":"no data\nat all"}`)},
			"no data", "at all", false},
		"an error file that was cut": {Ending{Code: 1, ErrorFile: []byte(`{"message":{"mess`),
			Output: []byte("trouble\n")}, "trouble", "", false},
		"a progress bar": {Ending{Code: 1, Output: []byte("10%\r20%\r30% out of memory\n")},
			"30% out of memory", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain(test.e)
			if test.message != "" && got.Message != test.message {
				t.Errorf("message %q, want %q", got.Message, test.message)
			}
			if !strings.Contains(got.Detail, test.detail) {
				t.Errorf("detail %q is without %q", got.Detail, test.detail)
			}
			if got.Victim != test.victim {
				t.Errorf("victim: %v, want %v", got.Victim, test.victim)
			}
		})
	}
}

func TestExplainIsBounded(t *testing.T) {
	long := strings.Repeat("é", 3<<10)
	for name, e := range map[string]Ending{
		"output": {Code: 1, Output: []byte("first\n" + long + "\nTraceback (most recent call last):\n  " +
			long +
			"\nValueError: " + long)},
		"one line":   {Code: 1, Output: []byte(long)},
		"error file": {Code: 1, ErrorFile: []byte(`{"message":"` + long + `"}`)},
	} {
		c := Explain(e)
		if len(c.Message) > maxMessage || len(c.Detail) > maxDetail {
			t.Errorf("%s: %d and %d bytes", name, len(c.Message), len(c.Detail))
		}
		if strings.ToValidUTF8(c.Message+c.Detail, "") != c.Message+c.Detail {
			t.Errorf("%s: half a character", name)
		}
	}
}

func FuzzExplain(f *testing.F) {
	f.Add([]byte(gloo), []byte(`{"message":"x"}`))
	f.Add([]byte("Traceback (most recent call last):"), []byte(nil))
	f.Fuzz(func(t *testing.T, output, file []byte) {
		c := Explain(Ending{Code: 1, Output: output, ErrorFile: file})
		if len(c.Message) > maxMessage || len(c.Detail) > maxDetail || strings.Contains(c.Message, "\n") {
			t.Errorf("%+v", c)
		}
	})
}
