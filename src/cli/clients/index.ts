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
export type Step =
  | { readonly kind: 'shell' | 'click'; readonly text: string }
  | { readonly kind: 'file'; readonly file: string; readonly text: string }
  | { readonly kind: 'program'; readonly language: string; readonly text: string };

export const clients = [
  codingTools,
  chatApps,
  libraries,
  withoutLibrary,
].flat() as readonly unknown[] as readonly Client[];
