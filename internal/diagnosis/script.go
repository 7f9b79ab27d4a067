package diagnosis

import (
	"slices"
	"strings"
)

// scriptErrors are exceptions that a script raises again each time, whatever a checkpoint has in it: an
// argument, a name or a module is wrong, or a checkpoint does not fit the script or the world.
var scriptErrors = []string{"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError",
	"NameError", "UnboundLocalError", "AttributeError", "TypeError", "KeyError", "NotImplementedError",
	"ElasticError", "MismatchError", "ZeRORuntimeException"}

// mismatches are texts of torch and numpy in other exceptions: shapes that do not fit, and state
// dictionaries of another model.
var mismatches = []string{"loading state_dict", "loaded state dict", "size mismatch",
	"shapes cannot be multiplied", "must match the size of tensor", "is invalid for input of size",
	"could not be broadcast together"}

// ofScript reports whether an exception, as Python prints it, is raised again each time.
func ofScript(message string) bool {
	kind, text, _ := strings.Cut(message, ":")
	kind = kind[strings.LastIndexByte(kind, '.')+1:]
	if slices.Contains(scriptErrors, kind) {
		return true
	}
	return slices.Contains([]string{"RuntimeError", "ValueError"}, kind) &&
		slices.ContainsFunc(mismatches, func(m string) bool { return strings.Contains(text, m) })
}

// ofArguments reports whether a row is that with which argparse ends a script, with exit code 2.
func ofArguments(row string) bool {
	program, _, found := strings.Cut(row, ": error: ")
	return found && program != "" && !strings.ContainsAny(program, " \t")
}
