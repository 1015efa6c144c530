import chatApps from './chat-apps.yaml';
import codingTools from './coding-tools.yaml';
import libraries from './libraries.yaml';
import withoutLibrary from './without-library.yaml';

/**
 * A program that `tollgate connect` prints settings for. Each has an entry in one of the YAML files
 * and the same text in docs/clients.md; a test compares the two.
 */
export interface Client {
  /** The argument of `tollgate connect`. */
  readonly name: string;
  /** The heading in docs/clients.md. */
  readonly title: string;
  readonly speaks: 'chat' | 'messages' | 'responses';
  /** The path that follows the gateway's address in the client's settings. */
  readonly base: string;
  /** The path that the client appends to the gateway's address and `base`. */
  readonly appends: string;
  readonly steps: readonly Step[];
  /** A mistake that users are likely to make with this client, in Markdown. */
  readonly note: string;
}

/** One step of the setup. Its text has placeholders such as `{{model}}`. */
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

/** The values of the placeholders in a client's steps, which differ between gateways. */
export interface SettingValues {
  readonly url: string;
  /** The gateway's address from inside a container on the same machine. */
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

/** Returns all steps. The first one sets the environment variables that the others use. */
export function stepsOf(client: Client, values: SettingValues): Step[] {
  const texts = client.steps.map(({ text }) => text).join('\n');
  const variables = { TOLLGATE_URL: values.url, TOLLGATE_KEY: values.key };
  const used = Object.entries(variables).filter(([name]) =>
    new RegExp(`\\b${name}\\b`).test(texts),
  );
  const exports = used.map(([name, value]) => `export ${name}="${value}"\n`).join('');
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
  shell: 'In the shell that starts the client:',
  click: "In the client's settings:",
  file: 'In the file',
  program: 'In your program:',
};

/** Returns the steps as text to copy, each below a heading that says where it belongs. */
export function settingsText(client: Client, values: SettingValues): string {
  const sections = stepsOf(client, values).map((step) => {
    const heading =
      step.kind === 'file' ? `${stepHeadings.file} ${step.file}:` : stepHeadings[step.kind];
    const text = step.kind === 'click' ? wrapped(step.text) : step.text;
    return `${heading}\n\n${text.trimEnd()}`;
  });
  const note = `Note: ${fillPlaceholders(client.note, values).trimEnd()}`;
  return [...sections, wrapped(withoutLinks(note))].join('\n\n');
}

/** Replaces links with their text, because links in Markdown can't be clicked in a terminal. */
function withoutLinks(markdown: string): string {
  return markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1');
}

/** Breaks lines at spaces, because a terminal 80 columns wide would break them inside words. */
function wrapped(text: string): string {
  return text.replace(/(.{1,80})(?: |$)/g, '$1\n').trimEnd();
}
