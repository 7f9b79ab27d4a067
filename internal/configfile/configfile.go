// Package configfile reads elastic.yaml: a mapping from names of settings to their values. It does
// not know which settings exist.
package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Name is the name of the file, in the working directory.
const Name = "elastic.yaml"

// MaxSize is the largest size of a file, in bytes.
const MaxSize = 1 << 20

// Entry is one setting in the file.
type Entry struct {
	Key   string
	Value string // the elements of a list are joined by commas
	Line  int    // of the key, from 1
}

// Error means that a file is not a mapping from names to values.
type Error struct {
	Line int // 0: unknown
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return Name + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", Name, e.Line, e.Text)
}

// Parse returns the settings of a file, in the order of the file. An empty file has none. The error
// is an *Error.
//
// Values are the text in the file: 2:4 is text, and not a number as in YAML 1.1.
func Parse(text []byte) ([]Entry, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntax(err)
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &Error{Line: second.Line, Text: "only one document is read"}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &Error{root.Line, "lines of the form NAME: VALUE are expected"}
	}
	return entries(root)
}

// syntax converts an error of the parser, whose text contains the line.
func syntax(err error) *Error {
	e := &Error{Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if n, _ := fmt.Sscanf(e.Text, "line %d:", &e.Line); n == 1 {
		_, e.Text, _ = strings.Cut(e.Text, ": ")
	}
	return e
}

func entries(root *yaml.Node) ([]Entry, error) {
	var all []Entry
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return nil, &Error{key.Line, "the name of a setting is a word"}
		}
		value, err := text(key, node)
		if err != nil {
			return nil, err
		}
		all = append(all, Entry{Key: key.Value, Value: value, Line: key.Line})
	}
	return all, nil
}

// text returns the value of a setting: the text of a scalar, or the elements of a list.
func text(key, node *yaml.Node) (string, error) {
	if node.Kind != yaml.SequenceNode {
		return scalar(key, node)
	}
	var all []string
	for _, element := range node.Content {
		value, err := scalar(key, element)
		if err != nil {
			return "", err
		}
		all = append(all, value)
	}
	return strings.Join(all, ","), nil
}

func scalar(key, node *yaml.Node) (string, error) {
	switch {
	case node.Kind != yaml.ScalarNode:
		return "", &Error{node.Line, fmt.Sprintf("%s: a value or a list of values is expected", key.Value)}
	case node.Tag == "!!null":
		return "", &Error{node.Line, key.Value + " has no value"}
	}
	return node.Value, nil
}
