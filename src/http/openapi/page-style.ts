/** Small, and readable in the light and in the dark, on a desk and on a phone. */
export const style = `
:root {
  --ground: #fbfaf7; --panel: #f2efe8; --ink: #22211e; --soft: #66625a; --line: #ddd8cc;
  --link: #1d5c8a; --get: #1b6b45; --post: #8a4b08; --put: #5b4599; --delete: #a3262b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #171614; --panel: #211f1c; --ink: #ece8df; --soft: #a8a297; --line: #3a3732;
    --link: #7db9e8; --get: #6fce9f; --post: #eeb06a; --put: #b7a2f2; --delete: #f28f92;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0; display: grid; grid-template-columns: 20rem minmax(0, 1fr);
  background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
}
a { color: var(--link); text-underline-offset: 2px; }
a:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
small { color: var(--soft); font-weight: 400; }
nav {
  position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1rem 1.25rem;
  background: var(--panel); border-right: 1px solid var(--line); font-size: 0.8125rem;
}
nav .brand { font-size: 1.125rem; font-weight: 700; margin: 0; }
nav h2 { margin: 1.25rem 0 0.25rem; font-size: 0.8125rem; color: var(--soft); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a {
  display: block; padding: 0.15rem 0; color: inherit; text-decoration: none;
  overflow-wrap: anywhere;
}
nav a:hover { text-decoration: underline; }
nav b { font-weight: 600; color: var(--soft); font-size: 0.6875rem; }
main { padding: 1.5rem clamp(1rem, 4vw, 3rem) 6rem; max-width: 64rem; }
h1 { margin: 0 0 0.5rem; font-size: 1.75rem; line-height: 1.2; }
section > h2 { margin: 3rem 0 0.5rem; font-size: 1.375rem; text-transform: capitalize; }
article { padding: 1.25rem 0; border-top: 1px solid var(--line); }
h3 { margin: 0 0 0.5rem; font-size: 1.0625rem; }
h4 { margin: 1rem 0 0.25rem; font-size: 0.875rem; }
p { margin: 0.25rem 0; }
.method { font: 700 0.8125rem ui-monospace, monospace; margin-right: 0.25rem; }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); }
.put, .patch { color: var(--put); }
.answer { margin-top: 0.75rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem; }
th, td {
  padding: 0.35rem 0.75rem 0.35rem 0; border-bottom: 1px solid var(--line);
  text-align: left; vertical-align: top;
}
th { font: 600 0.8125rem/1.6 ui-monospace, monospace; white-space: nowrap; }
th { width: 15rem; }
td:nth-child(2) { width: 14rem; }
td table { font-size: 0.8125rem; }
summary { cursor: pointer; color: var(--soft); font-size: 0.875rem; margin-top: 0.75rem; }
pre {
  margin: 0.5rem 0 0; padding: 0.75rem 1rem; background: var(--panel); border-radius: 6px;
  overflow-x: auto; white-space: pre-wrap;
}
@media (max-width: 52rem) {
  table, tbody, tr, th, td { display: block; }
  th, td, td:nth-child(2) { width: auto; border: 0; padding: 0; white-space: normal; }
  tr { padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
  td table { padding-left: 1rem; }
  body { display: block; }
  nav {
    position: static; height: auto; max-height: 40vh;
    border-right: 0; border-bottom: 1px solid var(--line);
  }
}
`;
