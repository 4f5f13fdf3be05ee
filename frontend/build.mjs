// Bundles the page of the studio into the package, where `perhop studio` finds it.
import { build } from "esbuild";
import { copyFile } from "node:fs/promises";

const page = "../python/perhop/studio/page";

await build({
  entryPoints: { studio: "src/main.ts" },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  outdir: page,
  legalComments: "none",
  logLevel: "warning",
});
await build({ entryPoints: ["src/studio.css"], minify: true, outdir: page, logLevel: "warning" });
await copyFile("src/index.html", `${page}/index.html`);
