"""A server of a test: what listens, and a thread for each connection."""

import socket
import threading


class Listener:
    """Listens at `port`; `serve(socket, its bytes)` on a thread for each connection."""

    def __init__(self, port=0):
        self.listener = socket.create_server(('127.0.0.1', port))
        self.port = self.listener.getsockname()[1]
        self.url, self.name = f'http://127.0.0.1:{self.port}', f'127.0.0.1:{self.port}'
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                sock = self.listener.accept()[0]
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets.append(sock)
                threading.Thread(target=self._guarded, args=(sock,), daemon=True).start()
        except OSError:
            return

    def _guarded(self, sock):
        try:
            with sock, sock.makefile('rb') as stream:
                self.serve(sock, stream)
        except OSError:
            pass

    def close(self):
        for sock in [self.listener, *self.sockets]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.listener.close()
