// The menu of saved views: goes to one, saves the present one, removes one.
import { useLocation, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { Menu } from "@/parts/menu";
import { saveViews, useSavedViews } from "./saved-views";
import styles from "./saved-view-menu.module.css";

/** A menu with the views that were saved in this browser. */
export function SavedViews() {
  const views = useSavedViews();
  const navigate = useNavigate();
  const { searchStr } = useLocation();
  const [isOpen, setOpen] = useState(false);
  const present = views.find((one) => one.search === searchStr);
  const save = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget).get("name") ?? "").trim();
    if (!name) return;
    saveViews([...views.filter((one) => one.name !== name), { name, search: searchStr }].sort((a, b) => a.name.localeCompare(b.name)));
    setOpen(false);
  };
  return (
    <>
      <Menu
        title={present ? `View: ${present.name}` : "Views"}
        items={[
          ...views.map((one) => ({ title: one.name, onChoose: () => void navigate({ href: `/executions${one.search}` }) })),
          { title: "Save or remove views …", onChoose: () => setOpen(true) },
        ]}
      />
      {isOpen && (
        <Dialog title="Views" onClose={() => setOpen(false)}>
          <p>A view is a filter with its columns and its order. Views are kept in this browser; to give one to others, send the address of the page.</p>
          <form onSubmit={save} className={styles.form}>
            <label htmlFor="view-name">Save the present view as</label>
            <input id="view-name" name="name" required maxLength={60} defaultValue={present?.name} />
            <Button look="main" type="submit">
              Save
            </Button>
          </form>
          <ul className={styles.list}>
            {views.map((one) => (
              <li key={one.name}>
                <span dir="auto">{one.name}</span>
                <Button look="quiet" aria-label={`Remove the view ${one.name}`} onClick={() => saveViews(views.filter((other) => other !== one))}>
                  Remove
                </Button>
              </li>
            ))}
          </ul>
        </Dialog>
      )}
    </>
  );
}
