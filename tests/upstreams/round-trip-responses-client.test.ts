/** A dialogue that we wrote for the Responses endpoint is read from a client as the same. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { readPrompt } from '../../src/dialects/responses/client/prompt.ts';
import { readResponsesRequest } from '../../src/dialects/responses/client/request.ts';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import { compact, randomPrompts, responsesFeatures } from '../support/random-prompts.ts';
import { makeTarget } from '../support/prompts.ts';

// A tool that failed says so in its words only.
const carries = { ...responsesFeatures, resultErrors: false };

test('a request comes back as the dialogue that it was written from', () => {
  fc.assert(
    fc.property(randomPrompts(carries), (dialogue) => {
      const text = String(responsesUpstream.write(dialogue, makeTarget()).body);
      const source = { text, bytes: new TextEncoder().encode(text) };
      const read = readPrompt(readResponsesRequest(JSON.parse(text), source));
      const tools = dialogue.tools.map((tool) => ({ strict: false, ...tool }));
      const sampling = compact(read.sampling);
      expect({ ...read, sampling }).toEqual({ ...dialogue, tools });
    }),
    { numRuns: 300 },
  );
}, 120_000);
