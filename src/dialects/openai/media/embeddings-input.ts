import { embeddingsInputsMax } from '../../../core/bounds.ts';
import type { Problem } from '../../../core/explain.ts';
import type { Input } from '../../media/embeddings.ts';

/** Far above any vocabulary. */
export const tokenMax = 10_000_000;

/** Whether `input` is a list of several inputs; a list of numbers is one input. */
export function isList(input: Input | readonly Input[]): input is readonly Input[] {
  return Array.isArray(input) && typeof input[0] !== 'number';
}

/** What is wrong with an input that the schema refused, and where. */
export function misfitOf(input: unknown): Problem {
  const path = 'input';
  const kinds = 'a text, a list of texts, or lists of token numbers';
  if (input === undefined || input === null) return { path, message: `is required: ${kinds}` };
  if (input === '') return { path, message: nothing };
  if (!Array.isArray(input)) return { path, message: `must be ${kinds}` };
  const [first] = input;
  if (input.length === 0) return { path, message: 'must have at least one item' };
  if (typeof first !== 'number' && input.length > embeddingsInputsMax) {
    const most = embeddingsInputsMax;
    return { path, message: `has ${input.length} items; at most ${most} are allowed` };
  }
  // All items must be of the kind of the first.
  if (typeof first === 'number') return firstProblem(input, path, problemOfToken);
  return firstProblem(input, path, Array.isArray(first) ? problemOfTokens : problemOfText);
}

type Look = (item: unknown, path: string) => Problem | undefined;

function firstProblem(items: readonly unknown[], path: string, look: Look): Problem {
  for (const [index, item] of items.entries()) {
    const problem = look(item, `${path}[${index}]`);
    if (problem) return problem;
  }
  return { path, message: 'is not valid' };
}

const nothing = 'is empty; there is nothing to embed';

function problemOfText(item: unknown, path: string): Problem | undefined {
  if (typeof item !== 'string') return { path, message: 'must be a text' };
  return item === '' ? { path, message: nothing } : undefined;
}

function problemOfToken(item: unknown, path: string): Problem | undefined {
  const isToken = Number.isInteger(item) && Number(item) >= 0 && Number(item) <= tokenMax;
  return isToken ? undefined : { path, message: 'must be the number of a token' };
}

function problemOfTokens(item: unknown, path: string): Problem | undefined {
  if (!Array.isArray(item)) return { path, message: 'must be a list of token numbers' };
  if (item.length === 0) return { path, message: nothing };
  const at = item.findIndex((token) => problemOfToken(token, path) !== undefined);
  return at < 0 ? undefined : problemOfToken(item[at], `${path}[${at}]`);
}
