// The frame of all pages: navigation, who is signed in, the state of the connection, and the keys that act everywhere.
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { accessEnd, hasToken, signOut, switchTenant } from "@/api/access";
import { SERVER_URL } from "@/api/base";
import { live } from "@/api/live";
import { useConnection } from "@/api/use-live";
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import { scrollRowTo } from "@/parts/scroll-row";
import { errorText } from "@/words/failures";
import { sessionQuery, whoamiQuery } from "./identity";
import { Help } from "./help";
import { Palette } from "./palette";
import { PLACES, type Place } from "./places";
import { SessionEnded } from "./session-ended";
import { changeSettings, useSettings } from "./settings";
import { useShortcut } from "./shortcuts";
import { tellEveryone, useTold } from "./told";
import styles from "./layout.module.css";

const NEXT_THEME = { system: "dark", dark: "light", light: "system" } as const;

/** The frame around the page of a route. */
export function Layout() {
  const [open, setOpen] = useState<"" | "help" | "palette">("");
  const settings = useSettings();
  const ended = useSyncExternalStore(accessEnd.subscribe, accessEnd.get);
  useShortcut("?", "this help", () => setOpen("help"));
  useShortcut("mod+k", "go to anything", () => setOpen("palette"));
  useShortcut("t", "the other colours: dark, light, those of the system", () => changeSettings({ theme: NEXT_THEME[settings.theme] }));
  return (
    <div className={styles.frame}>
      <a href="#main" className={styles.skip} onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <aside className={styles.side}>
        <Link to="/executions" className={styles.brand}>
          <img src={`${SERVER_URL}/icon.svg`} alt="" width="24" height="24" /> Perdure
        </Link>
        <Navigation />
        <div className={styles.tools}>
          <Button look="quiet" onClick={() => setOpen("palette")}>
            Go to … <kbd>{/mac/i.test(navigator.platform) ? "⌘" : "Ctrl"} K</kbd>
          </Button>
          <ConnectionState />
          <Person onHelp={() => setOpen("help")} />
        </div>
      </aside>
      <main id="main" tabIndex={-1} className={styles.main}>
        <ConnectionNotice isEnded={ended} />
        <Outlet />
      </main>
      <Told />
      {open === "help" && <Help onClose={() => setOpen("")} />}
      {open === "palette" && <Palette onClose={() => setOpen("")} />}
      {ended && <SessionEnded />}
    </div>
  );
}

/** The places; where they are in a row that is wider than the page, the present one is scrolled into sight. */
function Navigation() {
  const row = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  useEffect(() => {
    scrollRowTo(row.current, row.current?.querySelector<HTMLElement>("[aria-current=page]"));
  }, [pathname]);
  return (
    <nav ref={row} aria-label="Main" className={styles.nav}>
      {PLACES.map((place) => (
        <NavLink key={place.path} place={place} />
      ))}
    </nav>
  );
}

function NavLink({ place }: { place: Place }) {
  const navigate = useNavigate();
  useShortcut(`g ${place.key}`, place.name, () => void navigate({ to: place.path }));
  return (
    <Link to={place.path} className={styles.link} activeProps={{ "aria-current": "page" }} activeOptions={{ includeSearch: false }}>
      {place.name}
    </Link>
  );
}

function ConnectionState() {
  const connection = useConnection();
  const words = { connecting: "connecting …", live: "live", lost: "no connection", paused: "updates paused" }[connection];
  const isPaused = connection === "paused";
  return (
    <Button look="quiet" className={styles.connection} onClick={() => live.pause(!isPaused)} title={isPaused ? "Go on with live updates" : "Pause live updates"}>
      <span aria-hidden="true" className={`${styles.dot} ${styles[connection]}`} /> {words}
    </Button>
  );
}

function ConnectionNotice({ isEnded }: { isEnded: boolean }) {
  const connection = useConnection();
  if (connection !== "lost" && !isEnded) return null;
  return (
    <p role="alert" className={styles.lost}>
      {isEnded ? "You are not signed in any more. What you see may have changed since; load the page again to sign in." : "The connection to the server is lost. What you see may have changed since; the page connects again by itself."}
    </p>
  );
}

function Person({ onHelp }: { onHelp: () => void }) {
  const { data: person } = useQuery(whoamiQuery);
  const { data: session } = useQuery(sessionQuery);
  const settings = useSettings();
  const who = person ? `${person.name || person.subject} · ${person.tenantName}` : "…";
  const others = (session?.tenants ?? []).filter((one) => one !== person?.tenantName);
  const change = async (action: () => Promise<unknown>, then: () => void) => {
    try {
      await action();
      then();
    } catch (error) {
      tellEveryone(errorText(error).text, "bad");
    }
  };
  return (
    <Menu
      label={`${who}: you and your settings`}
      title={who}
      items={[
        ...others.map((one) => ({
          title: `Go on in the tenant ${one}`,
          onChoose: () =>
            void change(
              () => switchTenant(one),
              () => location.assign(`${SERVER_URL}/executions`), // loaded anew, so that nothing of the former tenant stays in the page
            ),
        })),
        { title: `Colours: ${settings.theme === "system" ? "those of the system" : settings.theme}`, onChoose: () => changeSettings({ theme: NEXT_THEME[settings.theme] }) },
        { title: settings.hidesPayloads ? "Show payloads" : "Hide payloads", onChoose: () => changeSettings({ hidesPayloads: !settings.hidesPayloads }) },
        { title: settings.singleKeys ? "Switch single keys off" : "Switch single keys on", onChoose: () => changeSettings({ singleKeys: !settings.singleKeys }) },
        { title: "Keys and help", onChoose: onHelp },
        ...(hasToken() || !session ? [] : [{ title: "Sign out", onChoose: () => void change(signOut, () => location.assign(`${SERVER_URL}/login`)) }]),
      ]}
    />
  );
}

function Told() {
  const told = useTold();
  return (
    <div role="status" aria-live="polite" className={styles.told}>
      {told.map((one) => (
        <p key={one.number} className={`${styles.tell} ${styles[one.look]}`}>
          {one.text}
        </p>
      ))}
    </div>
  );
}
