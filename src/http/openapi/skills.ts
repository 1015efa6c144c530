import { Type } from 'typebox';
import { skillDescriptionMax, skillInstructionsMax } from '../../core/bounds.ts';
import { nullable, oneOf } from '../../core/schema-builders.ts';
import { data, deleted, type RouteDoc, record, text, time } from './doc.ts';

const summary = {
  name: text(),
  description: text(),
  source: oneOf('built_in', 'customer'),
  created_at: nullable(time()),
  updated_at: nullable(time()),
};
const skill = record('Skill', { ...summary, instructions: text() });
const named = { name: '1 to 64 lower-case letters, digits and hyphens.' };

export const skillDocs = {
  list: {
    summary: 'List skills',
    details: 'Instructions that a chat request can name in `skills`.',
    answers: { 200: data(Type.Array(record('SkillSummary', summary))) },
  },
  show: { summary: 'Look at a skill', path: named, answers: { 200: data(skill) } },
  put: {
    summary: 'Save a skill',
    path: named,
    body: record('NewSkill', {
      description: Type.String({ minLength: 1, maxLength: skillDescriptionMax }),
      instructions: Type.String({ minLength: 1, maxLength: skillInstructionsMax }),
    }),
    example: { description: 'Our tone', instructions: 'Write short sentences.' },
    answers: { 200: data(skill) },
  },
  delete: { summary: 'Delete a skill', path: named, answers: { 200: deleted } },
} satisfies Record<string, RouteDoc>;
