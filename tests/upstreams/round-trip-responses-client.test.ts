/** A dialogue that we wrote for the Responses endpoint is read from a client as the same. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { readPrompt } from '../../src/dialects/responses/client/prompt.ts';
import { readResponsesRequest } from '../../src/dialects/responses/client/request.ts';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import { compact, dialogues, responses } from '../support/dialogues.ts';
import { targetOf } from '../support/question.ts';

// A tool that failed says so in its words only.
const carries = { ...responses, resultErrors: false };

test('a request comes back as the dialogue that it was written from', () => {
  fc.assert(
    fc.property(dialogues(carries), (dialogue) => {
      const text = String(responsesUpstream.write(dialogue, targetOf()).body);
      const source = { text, bytes: new TextEncoder().encode(text) };
      const read = readPrompt(readResponsesRequest(JSON.parse(text), source));
      const tools = dialogue.tools.map((tool) => ({ strict: false, ...tool }));
      const sampling = compact(read.sampling);
      expect({ ...read, sampling }).toEqual({ ...dialogue, tools });
    }),
    { numRuns: 300 },
  );
}, 120_000);
