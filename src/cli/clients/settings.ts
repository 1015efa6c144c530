import type { Client, Step } from './index.ts';

/** The values that differ from gateway to gateway; they fill the gaps in a client's steps. */
export interface Gaps {
  readonly url: string;
  /** The same address, as a container on that machine reaches it. */
  readonly container_url: string;
  readonly key: string;
  readonly model: string;
  readonly model_name: string;
  readonly context: string;
  readonly output: string;
}

export function filled(text: string, gaps: Gaps): string {
  const names = Object.keys(gaps).join('|');
  const gap = new RegExp(`\\{\\{(${names})\\}\\}`, 'g');
  return text.replace(gap, (_, name: keyof Gaps) => gaps[name]);
}

/**
 * All steps in order; environment variables are set first, because programs and files read them.
 */
export function stepsOf(client: Client, gaps: Gaps): Step[] {
  const texts = client.steps.map(({ text }) => text).join('\n');
  const variables = { TOLLGATE_URL: gaps.url, TOLLGATE_KEY: gaps.key };
  const read = Object.entries(variables).filter(([name]) =>
    new RegExp(`\\b${name}\\b`).test(texts),
  );
  const exports = read.map(([name, value]) => `export ${name}="${value}"\n`).join('');
  const steps = client.steps.map((step) => ({ ...step, text: filled(step.text, gaps) }));
  if (exports === '') return steps;
  const [first, ...rest] = steps;
  if (first?.kind === 'shell') return [{ ...first, text: exports + first.text }, ...rest];
  return [{ kind: 'shell', text: exports }, ...steps];
}

const places: { readonly [Kind in Step['kind']]: string } = {
  shell: 'In the shell where it runs:',
  click: 'In its settings:',
  file: 'In the file',
  program: 'In your program:',
};

/** The steps as text to copy, each below the name of the place where it belongs. */
export function settingsText(client: Client, gaps: Gaps): string {
  const parts = stepsOf(client, gaps).map((step) => {
    const place = step.kind === 'file' ? `${places.file} ${step.file}:` : places[step.kind];
    const text = step.kind === 'click' ? wrapped(step.text) : step.text;
    return `${place}\n\n${text.trimEnd()}`;
  });
  const trap = `The trap: ${filled(client.trap, gaps).trimEnd()}`;
  return [...parts, wrapped(withoutLinks(trap))].join('\n\n');
}

/** Keeps the text of a link and drops its address: links cannot be clicked in a terminal. */
function withoutLinks(markdown: string): string {
  return markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1');
}

/** Breaks lines at spaces: a terminal 80 columns wide would break them inside words. */
function wrapped(text: string): string {
  return text.replace(/(.{1,80})(?: |$)/g, '$1\n').trimEnd();
}
