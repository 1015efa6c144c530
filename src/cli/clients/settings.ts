import type { Client, Step } from './index.ts';

/** What differs from gateway to gateway: fills the gaps of a client's steps. */
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

/** Everything to do, in order: what programs and files read from the environment is set first. */
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

/** As people paste it: each step below the place where it belongs. */
export function settingsText(client: Client, gaps: Gaps): string {
  const parts = stepsOf(client, gaps).map((step) => {
    const place = step.kind === 'file' ? `${places.file} ${step.file}:` : places[step.kind];
    const text = step.kind === 'click' ? wrapped(step.text) : step.text;
    return `${place}\n\n${text.trimEnd()}`;
  });
  const trap = `The trap: ${filled(client.trap, gaps).trimEnd()}`;
  return [...parts, wrapped(withoutLinks(trap))].join('\n\n');
}

/** A terminal follows no links. */
function withoutLinks(markdown: string): string {
  return markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1');
}

/** Sentences for a terminal of the usual width, which would break them inside of words. */
function wrapped(text: string): string {
  return text.replace(/(.{1,80})(?: |$)/g, '$1\n').trimEnd();
}
