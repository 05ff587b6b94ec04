// Builds the page of graphs to look at and to measure, which is no part of the console: `vite build --config vite.samples.config.ts --outDir FOLDER`.
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: "./",
  plugins: [react()],
  resolve: { alias: { "@generated": here("./generated"), "@": here("./src") } },
  worker: { format: "es" },
  build: { emptyOutDir: true, target: "es2023", chunkSizeWarningLimit: 700, rollupOptions: { input: here("./graph-samples.html") } },
});
