"""Operators in clusters: deploy, undeploy, inspect. Uses a Client and the documents of `kubewright_cli.manifests`.

crds       install and remove the CRDs                 apply           deploy and undeploy an operator
rollout    wait for its Pods, report why they fail     embedded        images as commands on this machine
status     its objects, and which have converged       doctor          problems and their remedies
pods       its Pods, its leader, their logs            compatibility   objects that the program cannot decode
webhooks   whether the API server can call them        certificates    what a certificate says, and who trusts it
policies   whether the API server enforces them        conversions     which process converts objects of a CRD
migration  store objects in the storage version        objects         apply, compare and delete documents
"""
