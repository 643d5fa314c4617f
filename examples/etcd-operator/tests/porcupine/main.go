// Reads a JSON array of histories from standard input, and writes whether Porcupine finds each of them linearizable.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

// Operation is one operation on a register. An End of null means that there was no answer.
type Operation struct {
	Kind     string  `json:"kind"`
	Start    int64   `json:"start"`
	End      *int64  `json:"end"`
	Value    *string `json:"value"`
	Expected *string `json:"expected"`
}

// State is what a register holds: nothing before the first write.
type State struct {
	written bool
	value   string
}

func stateOf(value *string) State {
	if value == nil {
		return State{}
	}
	return State{true, *value}
}

var register = porcupine.Model{
	Init: func() any { return State{} },
	Step: func(state, input, _ any) (bool, any) {
		operation, before := input.(Operation), state.(State)
		switch operation.Kind {
		case "read":
			return operation.End == nil || before == stateOf(operation.Value), before
		case "write":
			return true, stateOf(operation.Value)
		case "swap":
			if before != stateOf(operation.Expected) {
				// Without an answer it may have failed, which is the same as that it never happened.
				return operation.End == nil, before
			}
			return true, stateOf(operation.Value)
		}
		panic("unknown kind " + operation.Kind)
	},
	Equal: func(one, other any) bool { return one == other },
}

func main() {
	var histories [][]Operation
	if err := json.NewDecoder(os.Stdin).Decode(&histories); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	verdicts := make([]bool, len(histories))
	for number, history := range histories {
		verdicts[number] = porcupine.CheckOperations(register, calls(history))
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// calls returns the operations as Porcupine wants them: each by a client of its own, and those without an answer at
// the end of time, where they are after everything if they never happened.
func calls(history []Operation) []porcupine.Operation {
	found := make([]porcupine.Operation, 0, len(history))
	for number, each := range history {
		end := int64(math.MaxInt64)
		if each.End != nil {
			end = *each.End
		}
		found = append(found, porcupine.Operation{ClientId: number, Input: each, Call: each.Start, Return: end})
	}
	return found
}
