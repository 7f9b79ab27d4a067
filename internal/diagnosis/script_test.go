package diagnosis

import "testing"

// Errors that a script makes again each time are told from those that a checkpoint, a machine or a lost
// connection may have caused.
func TestScriptErrors(t *testing.T) {
	for text, want := range map[string]bool{
		"TypeError: f() got an unexpected keyword argument 'x'":                                       true,
		"ModuleNotFoundError: No module named 'deepspeed'":                                            true,
		"RuntimeError: Error(s) in loading state_dict for Net:":                                       true,
		"RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x2)":                       true,
		"ValueError: loaded state dict contains a parameter group that doesn't match":                 true,
		"deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint used a DP world size of 2": true,
		"elastic.errors.ElasticError: state.step is counted by state.end_step()":                      true,
		"elastic.errors.MismatchError: the checkpoint has no ema: it was saved by another script":     true,
		"elastic.errors.LoadError: step-7/state.pt cannot be read: EOF":                               false,
		"_pickle.UnpicklingError: invalid load key":                                                   false,
		"RuntimeError: CUDA error: an illegal memory access was encountered":                          false,
		"RuntimeError: [pair.cc:598] Connection closed by peer":                                       false,
		"ValueError: the loss is too large":                                                           false,
		"OSError: [Errno 28] No space left on device":                                                 false,
	} {
		got := Explain(Ending{Code: 1,
			Output: []byte("Traceback (most recent call last):\n  File \"t.py\", line 1\n" + text + "\n")})
		if got.Script != want {
			t.Errorf("%s: of the script: %v", text, got.Script)
		}
	}
	for text, want := range map[string]bool{"train.py: error: unrecognized arguments: --x": true,
		"train: step 4: error: no data": false, "TypeError: no traceback": false} {
		if got := Explain(Ending{Code: 2, Output: []byte("usage: train.py\n" + text + "\n")}); got.Script != want {
			t.Errorf("%s: of the script: %v", text, got.Script)
		}
	}
	killed := Ending{Code: 137, Signal: "SIGKILL",
		Output: []byte("Traceback (most recent call last):\n  File \"t.py\", line 1\nTypeError: x\n")}
	if Explain(killed).Script {
		t.Error("a killed worker has failed by its script")
	}
}
