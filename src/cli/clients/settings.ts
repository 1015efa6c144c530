import chatApps from './chat-apps.yaml';
import codingTools from './coding-tools.yaml';
import libraries from './libraries.yaml';
import withoutLibrary from './without-library.yaml';

/**
 * The programs that `tollgate connect` knows, as data: a new one needs a paragraph in one of the
 * files, and the same in docs/clients.md. A test holds the two against each other.
 */
export interface Client {
  /** The word behind `tollgate connect`. */
  readonly name: string;
  /** Its heading in docs/clients.md. */
  readonly title: string;
  readonly speaks: 'chat' | 'messages' | 'responses';
  /**
   * The path behind the gateway's address in the client's setting, and what the client appends to
   * it.
   */
  readonly base: string;
  readonly appends: string;
  readonly steps: readonly Step[];
  /** The mistake that people are likely to make with this client; Markdown. */
  readonly trap: string;
}

/** One thing to do. In its text, `{{model}}` and the like are gaps, filled for each gateway. */
type Step =
  | { readonly kind: 'shell' | 'click'; readonly text: string }
  | { readonly kind: 'file'; readonly file: string; readonly text: string }
  | { readonly kind: 'program'; readonly language: string; readonly text: string };

export const clients = [
  codingTools,
  chatApps,
  libraries,
  withoutLibrary,
].flat() as readonly unknown[] as readonly Client[];

/** The values that differ from gateway to gateway; they fill the gaps in a client's steps. */
export interface SettingValues {
  readonly url: string;
  /** The same address, as a container on that machine reaches it. */
  readonly container_url: string;
  readonly key: string;
  readonly model: string;
  readonly model_name: string;
  readonly context: string;
  readonly output: string;
}

export function fillPlaceholders(text: string, values: SettingValues): string {
  const names = Object.keys(values).join('|');
  const placeholder = new RegExp(`\\{\\{(${names})\\}\\}`, 'g');
  return text.replace(placeholder, (_, name: keyof SettingValues) => values[name]);
}

/**
 * All steps in order; environment variables are set first, because programs and files read them.
 */
export function stepsOf(client: Client, values: SettingValues): Step[] {
  const texts = client.steps.map(({ text }) => text).join('\n');
  const variables = { TOLLGATE_URL: values.url, TOLLGATE_KEY: values.key };
  const read = Object.entries(variables).filter(([name]) =>
    new RegExp(`\\b${name}\\b`).test(texts),
  );
  const exports = read.map(([name, value]) => `export ${name}="${value}"\n`).join('');
  const steps = client.steps.map((step) => ({
    ...step,
    text: fillPlaceholders(step.text, values),
  }));
  if (exports === '') return steps;
  const [first, ...rest] = steps;
  if (first?.kind === 'shell') return [{ ...first, text: exports + first.text }, ...rest];
  return [{ kind: 'shell', text: exports }, ...steps];
}

const stepHeadings: { readonly [Kind in Step['kind']]: string } = {
  shell: 'In the shell where it runs:',
  click: 'In its settings:',
  file: 'In the file',
  program: 'In your program:',
};

/** The steps as text to copy, each below the name of the place where it belongs. */
export function settingsText(client: Client, values: SettingValues): string {
  const sections = stepsOf(client, values).map((step) => {
    const heading =
      step.kind === 'file' ? `${stepHeadings.file} ${step.file}:` : stepHeadings[step.kind];
    const text = step.kind === 'click' ? wrapped(step.text) : step.text;
    return `${heading}\n\n${text.trimEnd()}`;
  });
  const trap = `The trap: ${fillPlaceholders(client.trap, values).trimEnd()}`;
  return [...sections, wrapped(withoutLinks(trap))].join('\n\n');
}

/** Keeps the text of a link and drops its address: links cannot be clicked in a terminal. */
function withoutLinks(markdown: string): string {
  return markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1');
}

/** Breaks lines at spaces: a terminal 80 columns wide would break them inside words. */
function wrapped(text: string): string {
  return text.replace(/(.{1,80})(?: |$)/g, '$1\n').trimEnd();
}
