// Clients that check answers with zod, unmodified.
//
//     node strict_clients.mjs URL WAV EVENTS
//
// The AI SDK transcribes the recording with its providers for OpenAI and Deepgram. The Agents SDK
// parses the file's realtime events, one a line. Prints a line of JSON for each.
import { readFileSync } from 'node:fs'
import { createDeepgram } from '@ai-sdk/deepgram'
import { createOpenAI } from '@ai-sdk/openai'
import { experimental_transcribe as transcribe } from 'ai'
// The package does not export its parser.
import { parseRealtimeEvent } from './node_modules/@openai/agents-realtime/dist/openaiRealtimeEvents.mjs'

const [url, recording, events] = process.argv.slice(2)
const audio = readFileSync(recording)

const print = (client, found) => console.log(JSON.stringify({ client, ...found }))

async function transcribed(client, model, providerOptions) {
  const request = { model, audio, providerOptions }
  const { text, segments, language, durationInSeconds } = await transcribe(request)
  print(client, { text, segments, language, durationInSeconds })
}

const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'any' })
// With options it requests `verbose_json` of this model, and `json` of the other.
for (const name of ['whisper-1', 'gpt-4o-transcribe']) {
  await transcribed(name, openai.transcription(name), { openai: { temperature: 0 } })
}

// This provider has no option for the address.
const redirected = (address, options) =>
  fetch(address.replace('https://api.deepgram.com', url), options)
const deepgram = createDeepgram({ apiKey: 'any', fetch: redirected })
await transcribed('nova-3', deepgram.transcription('nova-3'))

for (const data of readFileSync(events, 'utf8').trim().split('\n')) {
  const { data: parsed, isGeneric } = parseRealtimeEvent({ data })
  print('agents-realtime', { type: JSON.parse(data).type, valid: parsed !== null, isGeneric })
}
