package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/configfile"
	"github.com/elasticd/elastic/internal/phrase"
)

// FileName is the file of settings, in the working directory.
const FileName = configfile.Name

// FileUse says which flags of a command elastic.yaml may give.
type FileUse int

const (
	// FileVariables: the flags that a variable of the environment may give.
	FileVariables FileUse = iota
	// FileAll: every flag but those of one invocation.
	FileAll
	// FileNone: no flag; the file is not read.
	FileNone
)

func (f *Flag) inFile(use FileUse) bool {
	return use == FileAll && !f.Once || use == FileVariables && len(f.Env) > 0
}

// readFile reads elastic.yaml of the working directory, if there is one. Its keys are the flags of
// the commands that take all of them, in any spelling; a key that no command has is an error, also
// for a command that does not use it.
func (c *Call) readFile(table []Command) error {
	if c.Command.File == FileNone {
		return nil
	}
	text, err := fileText()
	if err != nil || text == nil {
		return err
	}
	entries, err := configfile.Parse(text)
	if err != nil {
		return problem.New(problem.Usage, "%v", err).Of(err).
			Cure("lines of the form np: 2; elastic run --help names the settings")
	}
	known := fileSpelling(table)
	c.file = map[string]Setting{}
	for _, e := range entries {
		if err := c.take(e, known); err != nil {
			return err
		}
	}
	return nil
}

// fileSpelling finds the flags that may stand in elastic.yaml by what people write.
func fileSpelling(table []Command) spelling {
	var flags []Flag
	for _, c := range table {
		if c.File == FileAll {
			flags = append(flags,
				slices.DeleteFunc(slices.Clone(c.Flags), func(f Flag) bool { return f.Once })...)
		}
	}
	return spell(flags)
}

// take settles one entry of the file.
func (c *Call) take(e configfile.Entry, known spelling) error {
	origin := configfile.Name + ":" + strconv.Itoa(e.Line) + ": " + e.Key
	name := strings.ReplaceAll(e.Key, "_", "-")
	f := known[name]
	switch {
	case f == nil && spell(Unused())[name] != nil:
		if c.Command.File == FileAll {
			c.Unused = append(c.Unused, origin)
		}
		return nil
	case f == nil:
		return unknownKey(origin, name, known)
	}
	s := Setting{Name: f.Name, Text: e.Value, Origin: origin, Given: true, From: FromFile}
	if other, twice := c.file[f.Name]; twice {
		return problem.New(problem.Usage, "%s is given twice", origin).
			Because("it is the same as %s", other.Origin).Cure("leave one of them out")
	}
	if _, err := strconv.ParseBool(e.Value); err != nil && f.Kind == Boolean {
		return s.Refuse("true or false")
	}
	c.file[f.Name] = s
	return nil
}

func unknownKey(origin, name string, known spelling) *problem.Error {
	e := problem.New(problem.Usage, "%s: there is no such setting", origin).
		Cure("elastic run --help names the settings")
	if g, ok := removed()[name]; ok {
		return e.Because("%s", g.why).Cure("%s", g.fix)
	}
	if near := known.nearest(name); near != "" {
		e.Cure("did you mean %s?", near)
	}
	return e
}

// FromFile are the names of the settings that elastic.yaml gives to this command, sorted.
func (c *Call) FromFile() (names []string) {
	for _, f := range c.Command.Flags {
		if s := c.Setting(f.Name); s.From == FromFile {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

// fileText is the content of elastic.yaml; nil: there is none.
func fileText() ([]byte, error) {
	info, err := os.Stat(configfile.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	refused := problem.New(problem.Usage, "%s cannot be read", FileName).
		Cure("make it a readable file, or rename it")
	switch {
	case err != nil:
		return nil, refused.Because("%v", err).Of(err)
	case !info.Mode().IsRegular():
		return nil, refused.Because("it is no regular file")
	case info.Size() > configfile.MaxSize:
		return nil, refused.Because("it has %d bytes; %d are the most", info.Size(), configfile.MaxSize)
	}
	f, err := os.Open(configfile.Name)
	if err != nil {
		return nil, refused.Because("%v", err).Of(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, configfile.MaxSize))
	if err != nil {
		return nil, refused.Because("%v", err).Of(err)
	}
	return text, nil
}

// nearest is the spelling that a name probably means: one a few letters away, else the only one
// that it begins.
func (s spelling) nearest(name string) string {
	var names, longer []string
	for n := range s {
		if len(n) > 1 {
			names = append(names, n)
		}
		if len(name) > 2 && strings.HasPrefix(n, name) {
			longer = append(longer, n)
		}
	}
	slices.Sort(names)
	if near := phrase.Nearest(name, names); near != "" || len(longer) != 1 {
		return near
	}
	return longer[0]
}
