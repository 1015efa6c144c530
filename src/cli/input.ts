import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { parseJson } from '../core/json.ts';

/** What a command asks for on standard input, in case a person sits there. */
export interface Question {
  readonly text: string;
  /** A key that nobody reads over a shoulder; otherwise everything up to Ctrl-D. */
  readonly isSecret?: boolean;
}

/** All of standard input. A terminal is told what is waited for: silence looks like a hang. */
export function readInput({ text, isSecret = false }: Question): Promise<string> {
  if (!process.stdin.isTTY) return Bun.stdin.text();
  // What is typed is hidden first and asked for then: nothing of it is seen, and nothing lost.
  const read = isSecret ? unseenKey() : Bun.stdin.text();
  const how = isSecret ? 'it is not shown; end with Enter' : 'end with Ctrl-D on a line of its own';
  process.stderr.write(`${text} (${how}):\n`);
  return read;
}

/** A line editor that writes its echo to nowhere. Whoever stops it has typed nothing. */
function unseenKey(): Promise<string> {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const editor = createInterface({ input: process.stdin, output, terminal: true });
  const { promise, resolve } = Promise.withResolvers<string>();
  const lines: string[] = [];
  editor.on('line', (line) => {
    lines.push(line);
    const text = lines.join('\n');
    if (isBegunJson(text)) return;
    resolve(text);
    editor.close();
  });
  editor.once('close', () => resolve(''));
  return promise;
}

/** A pasted Google account has many lines; what is not read here, the shell would run and keep. */
function isBegunJson(text: string): boolean {
  return text.trimStart().startsWith('{') && parseJson(text) === undefined;
}
