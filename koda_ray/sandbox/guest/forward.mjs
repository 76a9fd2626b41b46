// Runs a server inside a sandbox and passes the bytes of a Unix socket on to it.
//
// The socket is made and bound outside and arrives as an open, listening file descriptor, so nothing in here can put
// another file in its place, and the sandbox needs no directory in common with the machine around it.
//
//     node forward.mjs FD PORT PROGRAM [ARGUMENT...]
import { spawn } from "node:child_process";
import net from "node:net";

const [fd, port, program, ...args] = process.argv.slice(2);

const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] });
child.on("error", (error) => {
  console.error(`${program} could not be started: ${error.message}`);
  process.exit(127);
});
child.on("exit", (code, signal) => process.exit(signal ? 1 : (code ?? 1)));

const server = net.createServer({ allowHalfOpen: true }, (client) => {
  const upstream = net.connect({ host: "127.0.0.1", port: Number(port), allowHalfOpen: true });
  const end = () => {
    client.destroy();
    upstream.destroy();
  };
  client.on("error", end);
  upstream.on("error", end);
  client.on("close", () => upstream.destroy());
  upstream.on("close", () => client.destroy());
  client.pipe(upstream);
  upstream.pipe(client);
});
server.on("error", (error) => {
  console.error(`the preview socket failed: ${error.message}`);
  process.exit(1);
});
server.listen({ fd: Number(fd) });
