// Builds the console into the package, with relative addresses, so that it works below any path of a proxy.
// `vite build --mode samples --outDir FOLDER` builds the page of graphs to look at and to measure, which is no part of the console.
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import license from "rollup-plugin-license";
import { defineConfig } from "vitest/config";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const built = here("../src/perdure/api/console");

// What the first page takes, in few files: a browser fetches six at a time. What only other pages take stays in theirs.
const FIRST_CHUNKS = [
  { name: "libraries", test: /node_modules\/(react|react-dom|scheduler|use-sync-external-store|@tanstack|openapi-|lossless-json|eventsource-parser|get-nonce)/ },
  { name: "menus", test: /node_modules\/(radix-ui|@radix-ui|@floating-ui|aria-hidden|react-remove-scroll|react-style-singleton|use-|tslib|detect-node)/ },
  { name: "shared", test: /console\/src\/(api|parts|shell|words)\//, minShareCount: 3 },
];

export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: [react()],
  resolve: { alias: { "@generated": here("./generated"), "@": here("./src") } },
  worker: { format: "es" },
  build: {
    outDir: built,
    emptyOutDir: true,
    target: "es2023",
    chunkSizeWarningLimit: 700,
    rolldownOptions: mode === "samples" ? { input: here("./graph-samples.html") } : { plugins: [license({ thirdParty: { output: { file: `${built}/LICENSES.txt` } } })], output: { codeSplitting: { groups: FIRST_CHUNKS } } },
  },
  server: { proxy: Object.fromEntries(["/api", "/login", "/logout"].map((path) => [path, { target: "http://127.0.0.1:7788", changeOrigin: false }])) },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
}));
