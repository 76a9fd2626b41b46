// `bun` and `npm` for a sandbox whose packages are fixed: they run the project's scripts, and say that packages are here already.
const { spawnSync } = require("node:child_process");
const { existsSync, readFileSync } = require("node:fs");

const BUN = "/usr/local/bin/bun"; // where the image has it: for all but scripts and packages
const [tool, verb, ...rest] = process.argv.slice(2);

function fail(text) {
  console.error(`${tool}: ${text}`);
  process.exit(1);
}

function run(name, args) {
  if (!existsSync("package.json")) fail("there is no package.json here");
  let scripts;
  try {
    scripts = JSON.parse(readFileSync("package.json", "utf8")).scripts ?? {};
  } catch (error) {
    fail(`package.json is not valid: ${error.message}`);
  }
  if (typeof scripts[name] !== "string") fail(`there is no script "${name}"; there are: ${Object.keys(scripts).join(", ") || "none"}`);
  if (args[0] === "--") args = args.slice(1);
  const done = spawnSync("/bin/sh", ["-c", `${scripts[name]} "$@"`, name, ...args], { stdio: "inherit" });
  process.exit(done.status ?? 1);
}

if (verb === "run" || verb === "run-script") run(rest[0] ?? "", rest.slice(1));
else if (verb === "start" || verb === "test" || (tool === "bun" && (verb === "dev" || verb === "build"))) run(verb, rest);
else if ((verb === "install" || verb === "i" || verb === "ci") && rest.every((word) => word.startsWith("-"))) {
  console.log(`${tool}: nothing to install: the packages of package.json are part of this sandbox`);
} else if (["install", "i", "add", "remove", "update", "x", "create"].includes(verb)) {
  fail(`${verb} ${rest.join(" ")}: the packages of this sandbox are fixed; use those that node_modules already holds`);
} else if (verb === "--version" || verb === "-v") console.log(`${process.version.slice(1)} (node)`);
else if (tool === "bun" && verb && existsSync(BUN)) {
  const done = spawnSync(BUN, [verb, ...rest], { stdio: "inherit" });
  process.exit(done.status ?? 1);
} else if (verb && existsSync(verb)) {
  const done = spawnSync(process.execPath, [verb, ...rest], { stdio: "inherit" });
  process.exit(done.status ?? 1);
} else fail(`only "run SCRIPT" works in this sandbox; it was asked for "${[verb, ...rest].filter(Boolean).join(" ")}"`);
