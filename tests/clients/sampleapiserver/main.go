// Program sampleapiserver runs k8s.io/sample-apiserver, an API server that extends another one.
package main

import (
	"os"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	sample "k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	options := sample.NewWardleServerOptions(os.Stdout, os.Stderr)
	os.Exit(cli.Run(sample.NewCommandStartWardleServer(server.SetupSignalContext(), options, false)))
}
