/** For OpenAI's newest models Codex sends its tools as an item of the input. */
import { describe, expect, test } from 'bun:test';
import { responsesConversation } from './conversation.ts';
import { readDialogue } from './dialogue.ts';
import { readResponsesRequest } from './request.ts';
import { ToolForms } from './tool-forms.ts';

const added = {
  type: 'additional_tools',
  role: 'developer',
  tools: [
    {
      type: 'namespace',
      name: 'functions',
      tools: [
        { type: 'custom', name: 'exec', description: 'Runs code.' },
        { type: 'function', name: 'wait', parameters: { type: 'object' } },
      ],
    },
    { type: 'web_search' },
  ],
};

function read(tools: object) {
  const item = { ...added, ...tools };
  const body = { model: 'a/b', input: [item, { role: 'user', content: 'Hi' }] };
  const text = JSON.stringify(body);
  const source = { text, bytes: new TextEncoder().encode(text) };
  return readResponsesRequest(JSON.parse(text), source);
}

describe('tools that the input adds', () => {
  test('are tools like others, and no turn', () => {
    const request = read({});
    const { tools, turns, foreign } = readDialogue(request);
    expect(tools.map(({ name }) => name)).toEqual(['functions__exec', 'functions__wait']);
    expect(turns.map(({ role }) => role)).toEqual(['user']);
    expect(foreign).toEqual(['input[0].tools[1]']);
    expect(request.ask.needs.tools).toBe(true);
  });

  test('are left out where a namespace stands in another', () => {
    const inner = { type: 'namespace', name: 'inner', tools: [{ type: 'custom', name: 'exec' }] };
    const tools = [{ type: 'namespace', name: 'outer', tools: [inner] }];
    const dialogue = readDialogue(read({ tools }));
    expect(dialogue.tools).toEqual([]);
    expect(dialogue.foreign).toEqual(['input[0].tools[0].tools[0]']);
  });

  test('come back as what they were', () => {
    const forms = new ToolForms(read({}).body);
    const exec = { type: 'custom', name: 'exec', namespace: 'functions' } as const;
    expect(forms.formOf('functions__exec')).toEqual(exec);
  });

  test('bind the answer to the form it was asked for in, streamed or whole', () => {
    const isFormBound = (given: object) => responsesConversation(read(given)).isFormBound;
    expect(isFormBound({})).toBe(true);
    const tools = [{ type: 'function', name: 'wait', parameters: { type: 'object' } }];
    expect(isFormBound({ tools })).toBe(false);
  });

  test('are checked where they stand', () => {
    const tools = [{ type: 'function', name: 'no spaces' }];
    expect(() => read({ tools })).toThrow(
      /^input\[0\]\.tools\[0\]\.name must be a name for a tool/,
    );
    expect(() => read({ tools: 'exec' })).toThrow(/^input\[0\]\.tools must be/);
    expect(() => read({ tools: undefined })).toThrow(/^input\[0\]\.tools is required/);
  });
});
