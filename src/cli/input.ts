import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { parseJson } from '../core/json.ts';

/** What a command asks for on standard input, shown if that is a terminal. */
export interface Question {
  readonly text: string;
  /** A secret is one line, not echoed; otherwise the input is everything up to Ctrl-D. */
  readonly isSecret?: boolean;
}

/**
 * Reads all of standard input. At a terminal it first says what it waits for: silence looks like a
 * hang.
 */
export function readInput({ text, isSecret = false }: Question): Promise<string> {
  if (!process.stdin.isTTY) return Bun.stdin.text();
  // Hiding begins before the question is shown, so that no typed character is echoed or lost.
  const read = isSecret ? readHiddenLine() : Bun.stdin.text();
  const hint = isSecret
    ? 'it is not shown; end with Enter'
    : 'end with Ctrl-D on a line of its own';
  process.stderr.write(`${text} (${hint}):\n`);
  return read;
}

/** Reads a line without echo. Ctrl-C or Ctrl-D gives an empty text. */
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
 * A pasted Google account is JSON of many lines: any line not read here would go to the shell,
 * which runs it and keeps it in its history.
 */
function isIncompleteJson(text: string): boolean {
  return text.trimStart().startsWith('{') && parseJson(text) === undefined;
}
