import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { parseJson } from '../core/json.ts';

/** A prompt for input on stdin. It is shown only if stdin is a terminal. */
export interface InputPrompt {
  readonly text: string;
  /** True reads one line without echo. False reads everything up to Ctrl-D. */
  readonly isSecret?: boolean;
}

/**
 * Reads all of stdin. At a terminal, it prints a prompt first, because silence looks like a hang.
 */
export function readInput({ text, isSecret = false }: InputPrompt): Promise<string> {
  if (!process.stdin.isTTY) return Bun.stdin.text();
  // Turn off the echo before the prompt appears, so that no typed character is echoed or lost.
  const read = isSecret ? readHiddenLine() : Bun.stdin.text();
  const hint = isSecret ? 'hidden; end with Enter' : 'end with Ctrl-D on an empty line';
  process.stderr.write(`${text} (${hint}):\n`);
  return read;
}

/** Reads a line without echo. Resolves to '' on Ctrl-C or Ctrl-D. */
function readHiddenLine(): Promise<string> {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const editor = createInterface({ input: process.stdin, output, terminal: true });
  const { promise, resolve } = Promise.withResolvers<string>();
  const lines: string[] = [];
  editor.on('line', (line) => {
    lines.push(line);
    const text = lines.join('\n');
    if (isIncompleteJson(text)) return;
    resolve(text);
    editor.close();
  });
  editor.once('close', () => resolve(''));
  return promise;
}

/**
 * Recognizes the first lines of pasted JSON, such as a Google service account. The shell would run
 * the lines that aren't read here, and store them in its history.
 */
function isIncompleteJson(text: string): boolean {
  return text.trimStart().startsWith('{') && parseJson(text) === undefined;
}
