/** Compares THIRD_PARTY_NOTICES.md with package-lock.json. To fix a failure: `npm run notices`. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { productionDependencies, thirdPartyNotices } from '../../deploy/notices.ts';

const page = readFileSync(join(import.meta.dir, '../../THIRD_PARTY_NOTICES.md'), 'utf8');

describe('the third-party notices', () => {
  test('list the locked version of every production dependency, and the vocabulary', () => {
    const listed = [...page.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/^## (.+)$/gm)];
    const locked = productionDependencies().map(({ name, version }) => `${name} ${version}`);
    expect(listed.map(([, heading]) => heading)).toEqual(['cl100k_base', ...locked]);
    expect(locked.some((line) => line.startsWith('bun '))).toBe(true);
  });

  test('contain the license texts that the dependencies come with', () => {
    expect(page).toBe(thirdPartyNotices());
  });
});
