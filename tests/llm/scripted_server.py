#!/usr/bin/env python3
"""An OpenAI-compatible endpoint that answers by script, for tests of everything a real one may do.

    scripted_server.py SCRIPT.json [--port PORT] [--log FILE] [--tls CERTIFICATE KEY] [--port-fd FD]

SCRIPT is a list of steps; each request takes the next one, the last one serves all further requests. A step:
  {"answer": TEXT}             a completion, streamed where the request asks for it; also with
     "answer_file": FILE       its text from a file beside the script
     "finish": REASON          instead of "stop"
     "piece": N                bytes of an event's text, default 40
     "no_usage": true          tokens are not counted
     "cut": N                  the connection ends after N bytes of text
     "parts": true             content as a list of parts
  {"status": N, "headers": {}, "body": TEXT}    TEXT may hold {key}: what the request was authorised with
  {"hang": SECONDS}            no answer for so long, then the connection ends
  {"garbage": BYTES}           so many bytes that are no JSON
  {"refuse_field": NAME, ...}  400 while the request has that field; once it has not, the rest of the step
The log gets a line for each request: {"step": I, "path": ..., "authorization": ..., "body": {...}}.
"""
import argparse
import http.server
import json
import os
import pathlib
import ssl
import sys
import threading
import time


class Script:
    def __init__(self, path):
        self.directory = pathlib.Path(path).parent
        self.steps = json.loads(pathlib.Path(path).read_text())
        self.next = 0
        self.lock = threading.Lock()

    def take(self, request):
        with self.lock:
            index = min(self.next, len(self.steps) - 1)
            step = self.steps[index]
            refused = step.get("refuse_field")
            if refused and refused in request:
                return index, {"status": 400, "body": json.dumps({"error": {"message": f"unknown field {refused}"}})}
            self.next += 1
            return index, step


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None
    log = None

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            request = json.loads(body)
        except ValueError:
            request = {}
        index, step = self.script.take(request)
        if self.log:
            line = {"step": index, "path": self.path, "authorization": self.headers.get("Authorization"), "body": request}
            with self.script.lock, open(self.log, "a") as log:
                log.write(json.dumps(line) + "\n")
        if "status" in step:
            return self.refuse(step)
        if "hang" in step:
            time.sleep(step["hang"])
            self.close_connection = True
            return None
        if "garbage" in step:
            return self.send_whole(b"\x00\xffgarbage " * (step["garbage"] // 10 + 1), "application/octet-stream")
        text = step.get("answer", "")
        if "answer_file" in step:
            text = (self.script.directory / step["answer_file"]).read_text()
        return self.stream(request, step, text) if request.get("stream") else self.whole(request, step, text)

    def refuse(self, step):
        key = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        body = step.get("body", "").replace("{key}", key).encode()
        self.send_response(step["status"])
        for name, value in step.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_whole(self, body, kind, cut=None):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body if cut is None else body[:cut])
        except OSError:
            pass
        self.close_connection = self.close_connection or cut is not None

    def usage(self, request, text):
        prompt = sum(len(message.get("content") or "") for message in request.get("messages", []))
        return {"prompt_tokens": prompt // 4, "completion_tokens": len(text) // 4, "total_tokens": (prompt + len(text)) // 4}

    def whole(self, request, step, text):
        content = [{"type": "text", "text": text}] if step.get("parts") else text
        reply = {"id": "scripted", "object": "chat.completion", "model": request.get("model"),
                 "choices": [{"index": 0, "message": {"role": "assistant", "content": content},
                              "finish_reason": step.get("finish", "stop")}]}
        if not step.get("no_usage"):
            reply["usage"] = self.usage(request, text)
        self.send_whole(json.dumps(reply).encode(), "application/json", step.get("cut"))

    def event(self, data):
        payload = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
        self.wfile.flush()

    def stream(self, request, step, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece, cut = step.get("piece", 40), step.get("cut")

        def chunk(delta, finish=None, **more):
            choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
            return json.dumps({"object": "chat.completion.chunk", "model": request.get("model"), "choices": choices, **more})

        try:
            self.event(chunk({"role": "assistant", "content": None}))
            for at in range(0, len(text), piece):
                if cut is not None and at >= cut:
                    self.close_connection = True
                    return
                self.event(chunk({"content": text[at:at + piece]}))
            self.event(chunk({}, step.get("finish", "stop")))
            if not step.get("no_usage") and "stream_options" in request:
                self.event(json.dumps({"choices": [], "usage": self.usage(request, text)}))
            self.event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("script")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--port-fd", type=int, default=1)
    arguments = parser.parse_args()
    Handler.script = Script(arguments.script)
    Handler.log = arguments.log
    server = Server(("127.0.0.1", arguments.port), Handler)
    if arguments.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*arguments.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    os.write(arguments.port_fd, f"{server.server_address[1]}\n".encode())
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
