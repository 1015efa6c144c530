import { describe, expect, test } from 'bun:test';
import { Compile } from 'typebox/schema';
import { readMessagesRequest } from '../../anthropic/client/request.ts';
import { readChatRequest } from '../../openai-chat/client/request.ts';
import { readResponsesRequest } from '../../responses/client/request.ts';
import { imageUrl, webUrl } from './external-references.ts';

const isImage = Compile(imageUrl);
const isWeb = Compile(webUrl);

test.each([
  ['https://a.test/x.png', true, true],
  ['HTTPS://a.test/x.png', true, true],
  ['Http://a.test/x.png', true, true],
  ['data:image/png;base64,AAAA', true, false],
  ['DATA:image/png;base64,AAAA', true, false],
  ['ftp://a.test/x.png', false, false],
  ['https:a.test', false, false],
  [' https://a.test', false, false],
  ['x https://a.test', false, false],
])('the URL patterns match %j as an image: %p, on the web: %p', (url, image, web) => {
  expect([isImage.Check(url), isWeb.Check(url)]).toEqual([image, web]);
});

describe('an image with an uppercase scheme is accepted', () => {
  const source = { text: '', bytes: new Uint8Array() };
  const found = ({ request }: { request: { images: readonly { url: string }[] } }) =>
    request.images.map(({ url }) => url);

  test.each(['HTTPS://a.test/x.png', 'DATA:image/png;base64,AAAA'])('%s', (url) => {
    const part = { type: 'image_url', image_url: { url } };
    const chat = { model: 'a/b', messages: [{ role: 'user', content: [part] }] };
    expect(found(readChatRequest(chat, source))).toEqual([url]);
    const item = { role: 'user', content: [{ type: 'input_image', image_url: url }] };
    const response = { model: 'a/b', input: [item] };
    expect(found(readChatRequest(response, source))).toEqual([url]);
    expect(found(readResponsesRequest(response, source))).toEqual([url]);
  });

  test('in a Messages request', () => {
    const url = 'HTTPS://a.test/x.png';
    const content = [{ type: 'image', source: { type: 'url', url } }];
    const body = { model: 'a/b', max_tokens: 5, messages: [{ role: 'user', content }] };
    expect(found(readMessagesRequest(body, source))).toEqual([url]);
  });
});
