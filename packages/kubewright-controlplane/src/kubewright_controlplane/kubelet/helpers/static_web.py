"""A program, `python -I -S static_web.py FOLDER PORT`: a web server in place of nginx in a Pod.

It serves the files below FOLDER at the Pod's address. It caches nothing, so that a changed ConfigMap is visible at
once. Without such a folder it serves one page, with the names of the image and the Pod.
"""

import html
import os
import signal
import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from socketserver import TCPServer
from typing import BinaryIO

_PAGE = """<!DOCTYPE html>
<html>
<head><title>{image}</title></head>
<body>
<h1>{image}</h1>
<p>Served by Pod {pod}, in which a small web server stands in for the image.</p>
</body>
</html>
"""


class Handler(SimpleHTTPRequestHandler):
    """Serves one request."""

    server_version = "kubewright-stand-in"
    sys_version = ""

    def send_head(self) -> BytesIO | BinaryIO | None:
        if Path(self.directory).is_dir():
            return super().send_head()
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        image, pod = os.environ.get("KUBEWRIGHT_IMAGE", ""), os.environ.get("HOSTNAME", "")
        page = _PAGE.format(image=html.escape(image), pod=html.escape(pod)).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return BytesIO(page)

    def list_directory(self, path: str | os.PathLike[str]) -> BytesIO | None:
        self.send_error(HTTPStatus.FORBIDDEN)
        return None

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")  # file times are too coarse to distinguish two versions
        super().end_headers()


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would look the address up in DNS


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("the stand-in for nginx accepts no arguments; remove the container's args")
    folder, port = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    host = os.environ.get("KUBEWRIGHT_BIND_HOST", "127.0.0.1")
    with Server((host, port), partial(Handler, directory=folder)) as server:
        sys.stdout.write(f"serving {folder} at {host}:{port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
