// Reads a JSON array of cases from standard input, renders each of them, and writes a JSON array of answers.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

const (
	limit   = 20 * time.Second
	timeout = "timeout"
)

// Case is a template with its values. Integers are decoded as ints if Ints is set, else all numbers are floats.
type Case struct {
	Template  string          `json:"template"`
	Values    json.RawMessage `json:"values"`
	Missing   string          `json:"missing"`
	Functions string          `json:"functions"`
	Ints      bool            `json:"ints"`
}

// Answer is the output in Base64, or an error.
type Answer struct {
	Output string `json:"output"`
	Error  string `json:"error,omitempty"`
}

func functions(name string) template.FuncMap {
	all := sprig.TxtFuncMap()
	switch name {
	case "none":
		return template.FuncMap{}
	case "kudo":
		for _, each := range []string{"env", "expandenv", "base", "dir", "clean", "ext", "isAbs"} {
			delete(all, each)
		}
		all["toYaml"] = func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return string(text), err
		}
	}
	return all
}

func values(data json.RawMessage, ints bool) (any, error) {
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(data))
	if ints {
		decoder.UseNumber()
	}
	if err := decoder.Decode(&decoded); err != nil {
		return nil, err
	}
	return exact(decoded), nil
}

// exact replaces numbers by ints and floats, and cuts the capacity of slices.
func exact(value any) any {
	switch each := value.(type) {
	case json.Number:
		if !strings.ContainsAny(each.String(), ".eE") {
			number, _ := each.Int64()
			return int(number)
		}
		number, _ := each.Float64()
		return number
	case []any:
		for i := range each {
			each[i] = exact(each[i])
		}
		return each[:len(each):len(each)]
	case map[string]any:
		for key := range each {
			each[key] = exact(each[key])
		}
	}
	return value
}

func render(c Case, name string) (output string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	data, err := values(c.Values, c.Ints)
	if err != nil {
		return "", err
	}
	set := template.New("file").Option("missingkey=" + c.Missing).Funcs(functions(name))
	if _, err = set.Parse(c.Template); err != nil {
		return "", err
	}
	var buffer bytes.Buffer
	err = set.Execute(&buffer, data)
	return buffer.String(), err
}

func main() {
	time.Local = time.UTC
	var cases []Case
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answers := make([]Answer, len(cases))
	for i, each := range cases {
		answer := make(chan Answer, 1)
		go func() {
			output, err := render(each, each.Functions)
			if err != nil {
				answer <- Answer{Error: err.Error()}
				return
			}
			answer <- Answer{Output: base64.StdEncoding.EncodeToString([]byte(output))}
		}()
		select {
		case answers[i] = <-answer:
		case <-time.After(limit):
			answers[i] = Answer{Error: timeout}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
