"""Programs that the kubelet runs with an interpreter of their own. They import only the standard library.

exec_helper   becomes the command of a container
reaper        kills process groups after the control plane has died
static_web    a small web server in place of nginx
agnhost       commands of a test image of Kubernetes
"""
