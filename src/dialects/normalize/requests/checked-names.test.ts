import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import { fc } from '../../../../tests/support/random.ts';
import type { DialectName } from '../../../config/provider-schema.ts';
import { readCountRequest, readMessagesRequest } from '../../anthropic/client/request.ts';
import { anthropicClientRequest } from '../../anthropic/client-request.ts';
import { anthropicCount } from '../../anthropic/count-tokens.ts';
import type { ClientRequest } from '../../dialect.ts';
import { readChatRequest } from '../../openai-chat/client/request.ts';
import { openAiClientRequest } from '../../openai-chat/client-request.ts';
import { readResponsesRequest } from '../../responses/client/request.ts';
import { responsesClientRequest } from '../../responses/client-request.ts';
import { isUnambiguous } from './checked-names.ts';

type Reader = (text: string) => string;

const sourceOf = (text: string) => ({ text, bytes: new TextEncoder().encode(text) });

function write(clientRequest: ClientRequest, dialect: DialectName): string {
  return String(clientRequest.adapterFor(dialect)?.write(makeTarget({})).body);
}

/** Each function returns the text that an upstream of the same dialect receives. */
const chat: Reader = (fields) => {
  const text = `{"model":"a/b",${fields}} `;
  return write(openAiClientRequest(readChatRequest(JSON.parse(text), sourceOf(text))), 'openai');
};
const messages: Reader = (fields) => {
  const text = `{"model":"a/b","max_tokens":9,${fields}} `;
  const request = readMessagesRequest(JSON.parse(text), sourceOf(text));
  return write(anthropicClientRequest(request, new Headers()), 'anthropic');
};
const count: Reader = (fields) => {
  const text = `{"model":"a/b",${fields}} `;
  const request = readCountRequest(JSON.parse(text), sourceOf(text));
  return String(anthropicCount(request, new Headers()).write(makeTarget({}))?.body);
};
const responses: Reader = (fields) => {
  const text = `{"model":"a/b","store":false,"include":["reasoning.encrypted_content"],${fields}} `;
  const request = readResponsesRequest(JSON.parse(text), sourceOf(text));
  return write(responsesClientRequest(request), 'openai-responses');
};

const safe = '"https://safe.example/a.png"';
const evil = '"http://169.254.169.254/evil"';
const inUser = (part: string) => `"messages":[{"role":"user","content":[${part}]}]`;
const hi = '"messages":[{"role":"user","content":"Hi"}]';
const inChat = (image: string) => inUser(`{"type":"image_url","image_url":{${image}}}`);
const inMessages = (source: string) =>
  inUser(`{"type":"image","source":{"type":"url","url":${safe},${source}}}`);
const inInput = (fields: string) =>
  `"input":[{"role":"user","content":[{"type":"input_image","image_url":${safe},${fields}}]}]`;

const dodges: readonly (readonly [string, Reader, string])[] = [
  ['a doubled url in chat', chat, inChat(`"url":${evil},"url":${safe}`)],
  ['an escaped url in chat', chat, inChat(`"\\u0075rl":${evil},"url":${safe}`)],
  ['an uppercase url in chat', chat, inChat(`"url":${safe},"URL":${evil}`)],
  ['a capitalized detail of an image in chat', chat, inChat(`"url":${safe},"Detail":${evil}`)],
  [
    'a doubled file ID in chat',
    chat,
    inUser(`{"type":"file","file":{"file_data":"aGk=","file_id":${evil},"file_id":""}}`),
  ],
  [
    'an uppercase file ID in chat',
    chat,
    inUser(`{"type":"file","file":{"file_data":"aGk=","FILE_ID":${evil}}}`),
  ],
  [
    'capitalized content in chat',
    chat,
    `"messages":[{"role":"user","content":"Hi","Content":[{"type":"image_url","image_url":${evil}}]}]`,
  ],
  [
    'a capitalized tool type in chat',
    chat,
    `${hi},"tools":[{"type":"function","Type":${evil},"function":{"name":"f","parameters":{}}}]`,
  ],
  ['a field of a capitalized name at the top', chat, `${hi},"Model":${evil}`],
  ['a Kelvin sign at the top', chat, `${hi},"max_to\u212aens":${evil}`],
  ['a doubled url in Messages', messages, inMessages(`"url":${evil},"url":${safe}`)],
  ['an uppercase url in Messages', messages, inMessages(`"URL":${evil}`)],
  [
    'an uppercase url in a tool result in Messages',
    messages,
    `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
      {"type":"image","source":{"type":"url","url":${safe},"Url":${evil}}}]}]}]`,
  ],
  ['an uppercase url in a token count', count, inMessages(`"URL":${evil}`)],
  ['a doubled url in a token count', count, inMessages(`"url":${evil},"url":${safe}`)],
  ['a doubled image in Responses', responses, inInput(`"image_url":${evil},"image_url":${safe}`)],
  ['a capitalized image in Responses', responses, inInput(`"Image_URL":${evil}`)],
  ['a capitalized file ID in Responses', responses, inInput(`"File_ID":${evil}`)],
];

describe('a body that a server could read differently is rewritten to what was checked:', () => {
  test.each(dodges)('%s', (_, written, fields) => {
    const text = written(fields);
    expect(text).not.toContain('evil');
    expect(JSON.parse(text)).toHaveProperty('model');
  });
});

const schema = '{"type":"object","properties":{"url":{"type":"string"},"URL":{"enum":["Type"]}}}';
const call = '{"Content":"x","content":"y","URL":"z"}';

describe('names that the client chooses are sent as they are:', () => {
  test.each([
    [
      'in the schema of a chat tool',
      chat,
      `${hi},"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]`,
    ],
    [
      'in a response format',
      chat,
      `${hi},"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}}`,
    ],
    ['in a schema in an unknown field', chat, `${hi},"guided_json":${schema}`],
    ['in metadata', chat, `${hi},"metadata":{"URL":"1","Model":"2"}`],
    [
      'in a Messages tool and its call',
      messages,
      `"tools":[{"name":"f","input_schema":${schema}}],"messages":[{"role":"user","content":"Hi"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":${call}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]`,
    ],
    [
      'in a Responses tool, its headers, and an environment',
      responses,
      `"input":[{"type":"local_shell_call","action":{"type":"exec","env":{"URL":"x","Type":"y"}}}],
        "tools":[{"type":"function","name":"f","parameters":${schema}}]`,
    ],
    ['if an escape is in a name that occurs once', chat, `${hi},"\\u0073eed":1`],
  ])('%s', (_, written, fields) => {
    const text = written(fields);
    // A body that is rewritten loses its trailing space.
    expect(text).toEndWith(`${fields}} `);
  });
});

type Field = readonly [name: string, value: string | readonly Field[], space: string];

test('isUnambiguous finds duplicate names at any depth, with any names, texts, and spaces', () => {
  const word = fc.constantFrom('a', 'b', '\\', '":', '\\":', ' :', '{"a":1,"a":2}', 'é');
  const space = fc.constantFrom('', '', '', ' ', '\n');
  const { root } = fc.letrec<{ root: readonly Field[] }>((tie) => ({
    root: fc.array(fc.tuple(word, fc.oneof({ maxDepth: 3 }, word, tie('root')), space), {
      maxLength: 3,
    }) as fc.Arbitrary<readonly Field[]>,
  }));
  const textOf = (fields: readonly Field[]): string => {
    const write = ([name, value, gap]: Field) =>
      `${JSON.stringify(name)}${gap}:${typeof value === 'string' ? JSON.stringify(value) : `[${textOf(value)}]`}`;
    return `{${fields.map(write).join(',')}}`;
  };
  const hasDuplicate = (fields: readonly Field[]): boolean =>
    new Set(fields.map(([name]) => name)).size < fields.length ||
    fields.some(([, value]) => typeof value !== 'string' && hasDuplicate(value));
  fc.assert(
    fc.property(root, (fields) => {
      const text = textOf(fields);
      const isAccepted = isUnambiguous(sourceOf(text), JSON.parse(text), new Set());
      expect(isAccepted).toBe(!hasDuplicate(fields));
    }),
    { numRuns: 1_000 },
  );
});
