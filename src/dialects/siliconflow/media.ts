import { voiceName } from '../../core/media/audio.ts';
import { readAnswer } from '../failure.ts';
import {
  type ImageFile,
  type ImagesDialect,
  type SpeechDialect,
  type TranscriptionDialect,
  withMaskAsImage,
} from '../media.ts';
import {
  presentParameterNames,
  toVendorParameters,
} from '../normalize/requests/vendor-parameters.ts';
import { readImages } from '../openai-media/images.ts';
import { readTranscript } from '../openai-media/transcription.ts';
import { type BodyPart, concatBodies, inBase64, writeForm } from '../streamed-body.ts';

// SiliconFlow's speech. Requests have OpenAI's format, but the name of a voice includes the model.

/** The sample rate of OpenAI's raw audio in Hz. SiliconFlow's default is 44,100. */
const pcmSampleRate = 24_000;

export const siliconFlowSpeech: SpeechDialect = {
  formats: ['mp3', 'opus', 'wav', 'pcm'],
  voices: {
    voices: {
      alloy: 'alex',
      echo: 'benjamin',
      fable: 'charles',
      onyx: 'david',
      nova: 'anna',
      shimmer: 'bella',
      coral: 'claire',
      sage: 'diana',
    },
    default_voice: 'alex',
  },
  openEvents: null,
  write({ input, voice: requested, format, speed, instructions, extraFields }, target) {
    const { upstreamModel } = target;
    const voice = voiceName(requested);
    const { fields, dropped } = toVendorParameters({ ...extraFields, speed }, target);
    const body = JSON.stringify({
      model: upstreamModel,
      input,
      // A customer's own voice already has a full name, which contains colons.
      voice: voice.includes(':') ? voice : `${upstreamModel}:${voice}`,
      response_format: format,
      stream: true,
      ...(format === 'pcm' ? { sample_rate: pcmSampleRate } : {}),
      ...fields,
    });
    const allDropped = instructions === null ? dropped : [...dropped, 'instructions'];
    return { path: '/audio/speech', body, dropped: allDropped };
  },
};

// SiliconFlow's images. Edits use the endpoint that generates images.

const path = '/images/generations';

/** The fields of the image and its mask. Some models name them differently. */
const imageFields = ['image', 'image2'];

export const siliconFlowImages: ImagesDialect = {
  mask: 'image',
  imagesMax: 1,
  write(options, target) {
    const { upstreamModel, quirks } = target;
    const { prompt, images } = withMaskAsImage(options);
    const { parameters, extraFields } = options;
    const isEdit = images.length > 0;
    const size = isEdit || parameters.size === 'auto' ? null : parameters.size;
    const imagePlaceholders = Object.fromEntries(
      imageFields.slice(0, images.length).map((n) => [n, null]),
    );
    const { fields } = toVendorParameters(
      { ...extraFields, ...imagePlaceholders, image_size: size },
      target,
    );
    const sent = new Set([...Object.keys(fields), ...(size === null ? [] : ['size'])]);
    const dropped = presentParameterNames({ ...parameters, ...extraFields }).filter(
      (name) => !sent.has(name),
    );
    const start = JSON.stringify({ model: upstreamModel, prompt, ...fields });
    if (!isEdit) return { path, body: start, dropped };
    const imageParts = images.flatMap((image, index) => {
      const field = imageFields[index] ?? '';
      return inlined(quirks.rename_params?.[field] ?? field, image);
    });
    return { path, body: concatBodies([start.slice(0, -1), ...imageParts, '}']), dropped };
  },
  readGeneratedImages: (text) => readAnswer(text, readImages),
};

function inlined(field: string, { mediaType, content }: ImageFile): readonly BodyPart[] {
  return [`,${JSON.stringify(field)}:"data:${mediaType};base64,`, inBase64(content), '"'];
}

// SiliconFlow's transcription, which accepts a file, returns text, and has no options.

export const siliconFlowTranscription: TranscriptionDialect = {
  // Subtitle formats need timestamps, which SiliconFlow's transcripts don't have.
  formats: ['json', 'text'],
  write({ language, prompt, temperature, extraFields }, audio, { upstreamModel }) {
    const form = writeForm({ model: upstreamModel }, [{ name: 'file', ...audio }]);
    const dropped = presentParameterNames({ language, prompt, temperature, ...extraFields });
    return { path: '/audio/transcriptions', ...form, dropped };
  },
  read: readTranscript,
};
