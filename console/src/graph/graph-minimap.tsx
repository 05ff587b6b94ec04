// The whole graph in a small picture, with the window that is shown; a click or drag moves the window. It is drawn on a canvas, since it may have thousands of steps.
import { useReactFlow, useStore } from "@xyflow/react";
import { memo, useEffect, useRef, useState, type PointerEvent } from "react";
import type { LaidOutGraph } from "./use-graph-layout";
import styles from "./graph-minimap.module.css";

const WIDTH = 168;
const HEIGHT = 112;
const MARGIN = 6;
const LOOKS = ["good", "bad", "warn", "live", "dim", "plain", "line-strong", "bg-raised", "line"] as const;

interface Props {
  laid: LaidOutGraph;
  /** The look of each box in sight, by their order: the style of its state, or "" if nothing has happened. */
  looks: readonly string[];
}

/** The small picture. */
export const GraphMinimap = memo(function GraphMinimap({ laid, looks }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { setCenter, getZoom } = useReactFlow();
  const colors = useColors(canvas);
  const { width, height } = laid.layout;
  const scale = Math.min((WIDTH - 2 * MARGIN) / Math.max(width, 1), (HEIGHT - 2 * MARGIN) / Math.max(height, 1), 0.25);
  const [left, top] = [(WIDTH - width * scale) / 2, (HEIGHT - height * scale) / 2];
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || !colors) return;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, WIDTH, HEIGHT);
    let number = 0;
    for (const one of laid.visible.boxes.values()) {
      const place = laid.layout.places[number]!;
      const look = looks[number] || "line";
      const [x, y, w, h] = [left + place.x * scale, top + place.y * scale, Math.max(place.width * scale, 1.5), Math.max(place.height * scale, 1.5)];
      if (one.isOpen) {
        context.strokeStyle = colors["line-strong"]!;
        context.lineWidth = 0.5;
        context.strokeRect(x, y, w, h);
      } else {
        context.fillStyle = colors[look] ?? colors["line-strong"]!;
        context.fillRect(x, y, w, h);
      }
      number += 1;
    }
  }, [laid, looks, colors, scale, left, top]);
  const move = (event: PointerEvent<HTMLElement>) => {
    if (event.buttons === 0 && event.type !== "pointerdown") return;
    const at = event.currentTarget.getBoundingClientRect();
    void setCenter((event.clientX - at.left - left) / scale, (event.clientY - at.top - top) / scale, { zoom: getZoom() });
  };
  return (
    <div className={styles.minimap} title="Overview: click to go there" aria-hidden="true" onPointerDown={move} onPointerMove={move}>
      <canvas ref={canvas} width={WIDTH * (devicePixelRatio || 1)} height={HEIGHT * (devicePixelRatio || 1)} />
      <Window scale={scale} left={left} top={top} />
    </div>
  );
});

/** The window that is shown. */
function Window({ scale, left, top }: { scale: number; left: number; top: number }) {
  const [x, y, zoom] = useStore((state) => state.transform);
  const [width, height] = [useStore((state) => state.width), useStore((state) => state.height)];
  const style = { transform: `translate(${left - (x / zoom) * scale}px, ${top - (y / zoom) * scale}px)`, width: (width / zoom) * scale, height: (height / zoom) * scale };
  return <div className={styles.window} style={style} />;
}

/** The colours of the theme as a canvas takes them; read anew when the theme changes. */
function useColors(canvas: React.RefObject<HTMLCanvasElement | null>): Record<string, string> | null {
  const [colors, setColors] = useState<Record<string, string> | null>(null);
  useEffect(() => {
    const read = () => {
      const probe = canvas.current;
      if (!probe) return;
      const found: Record<string, string> = {};
      for (const look of LOOKS) {
        probe.style.color = `var(--${look})`;
        found[look] = getComputedStyle(probe).color;
      }
      probe.style.color = "";
      setColors(found);
    };
    read();
    const watcher = new MutationObserver(read);
    watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", read);
    return () => {
      watcher.disconnect();
      media.removeEventListener("change", read);
    };
  }, [canvas]);
  return colors;
}
