import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { skillDescriptionMax, skillInstructionsMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import { validate } from '../../core/misfit.ts';
import { isSkillName, type Skill } from './skill.ts';

/** What a tenant sends to save a skill, checked. */

const schema = Type.Object(
  { description: Type.String(), instructions: Type.String() },
  { additionalProperties: false },
);
const check = Compile(schema);

/** These turn the reading direction or hide: a reviewer of a skill must see what the model sees. */
const deceptive = /[\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u;
const controls = /(?![\n\t])\p{Cc}/u;
/** A list must not show a gap where a skill is: a text of zero-width spaces is empty, too. */
const seen = /[^\s\p{Cf}]/u;
const breaks = /[\n\t\u2028\u2029]/;

export function readSkill(name: string, body: unknown): Skill {
  if (!isSkillName(name)) {
    const message =
      'The name of a skill must be 1 to 64 lower-case letters, digits and hyphens, such as ' +
      '"house-style".';
    throw invalidRequest(message, 'name');
  }
  const input = validate(check, schema, body);
  const description = readText(input, 'description', skillDescriptionMax);
  if (breaks.test(description)) {
    throw invalidRequest('description must be one line.', 'description');
  }
  return { name, description, instructions: readText(input, 'instructions', skillInstructionsMax) };
}

/** Checks the length of the text as it will be kept, which no schema can count. */
function readText(
  input: Static<typeof schema>,
  field: keyof typeof input,
  lengthMax: number,
): string {
  const text = input[field].replaceAll('\r\n', '\n').trim();
  if (!seen.test(text)) throw invalidRequest(`${field} must not be empty.`, field);
  if (text.length > lengthMax) {
    const message = `${field} has ${text.length} characters; at most ${lengthMax} are allowed.`;
    throw invalidRequest(message, field);
  }
  if (!text.isWellFormed() || controls.test(text) || deceptive.test(text)) {
    const message = `${field} must not have control characters or characters that hide text.`;
    throw invalidRequest(message, field);
  }
  return text;
}
