// The way out of a sandbox that has no network: a port of its own loopback, passed on to a Unix socket.
//
// On the other side of the socket a proxy decides what is let through. It ends connections when it likes, and when it is
// gone none is made: there is no other way out.
//
//     node egress.mjs SOCKET PORT [PROGRAM [ARGUMENT...]]
//
// With a program, the port is there before it starts, and its end is the end of this; without one, this runs for good.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import net from "node:net";

const [socket, port, program, ...args] = process.argv.slice(2);

const server = net.createServer({ allowHalfOpen: true }, (client) => {
  const proxy = net.connect({ path: socket, allowHalfOpen: true });
  const end = () => {
    client.destroy();
    proxy.destroy();
  };
  client.on("error", end);
  proxy.on("error", end);
  client.on("close", () => proxy.destroy());
  proxy.on("close", () => client.destroySoon());
  client.pipe(proxy);
  proxy.pipe(client);
});
server.on("error", (error) => {
  console.error(`the way out of this sandbox is closed: ${error.message}`);
  process.exit(1);
});
server.listen({ host: "127.0.0.1", port: Number(port) }, () => {
  if (program === undefined) return;
  const child = spawn(program, args, { stdio: "inherit" });
  child.on("error", (error) => {
    console.error(`${program}: ${error.message}`);
    process.exit(127);
  });
  child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
});
