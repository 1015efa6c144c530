/** Addresses in requests. Schemes may have capitals, and JSON Schema patterns have no such flag. */
import { Type } from 'typebox';

const web = '[Hh][Tt][Tt][Pp][Ss]?://';

export const webAddress = Type.String({ pattern: `^${web}`, expected: 'an http(s) address' });

export const imageAddress = Type.String({
  pattern: `^(${web}|[Dd][Aa][Tt][Aa]:)`,
  expected: 'an http(s) address or a base64 data: URL',
});
